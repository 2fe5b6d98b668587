import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router'
import { basePath } from '@/app/base'
import { Frame } from '@/app/Frame'
import { PageFailure } from '@/parts/Failure'
import { Loading } from '@/parts/Loading'
import { NotFound } from '@/parts/NotFound'

const root = createRootRoute({ component: Frame, notFoundComponent: NotFound })

/** The choices of a view, as the address has them: every page reads and checks its own. */
export type Choices = Record<string, unknown>
const keep = (search: Choices): Choices => search

const page = (path: string, load: () => Promise<{ default: React.ComponentType }>) =>
  createRoute({
    getParentRoute: () => root,
    path,
    validateSearch: keep,
    component: lazyRouteComponent(load),
  })

const routes = root.addChildren([
  page('/', () => import('@/pages/overview/OverviewPage')),
  page('/benchmarks', () => import('@/pages/benchmarks/BenchmarksPage')),
  page('/benchmarks/new', () => import('@/pages/editor/NewBenchmarkPage')),
  page('/benchmarks/$benchmark', () => import('@/pages/benchmarks/BenchmarkPage')),
  page('/campaigns', () => import('@/pages/campaigns/CampaignsPage')),
  page('/campaigns/$campaign', () => import('@/pages/campaigns/CampaignPage')),
  page('/jobs/$job', () => import('@/pages/job/JobPage')),
  page('/compare', () => import('@/pages/compare/ComparePage')),
  page('/series', () => import('@/pages/series/SeriesListPage')),
  page('/series/$series', () => import('@/pages/series/SeriesPage')),
  page('/fleet', () => import('@/pages/fleet/FleetPage')),
  page('/fleet/$agent', () => import('@/pages/fleet/AgentPage')),
  page('/alerts', () => import('@/pages/alerts/AlertsPage')),
  page('/alerts/$alert', () => import('@/pages/alerts/AlertPage')),
  page('/schedules', () => import('@/pages/schedules/SchedulesPage')),
  page('/schedules/$schedule', () => import('@/pages/schedules/SchedulePage')),
  page('/settings', () => import('@/pages/settings/SettingsPage')),
])

export const router = createRouter({
  routeTree: routes,
  basepath: basePath || '/',
  defaultPreload: 'intent',
  defaultPendingComponent: () => <Loading what="the page" />,
  defaultErrorComponent: ({ error, reset }) => <PageFailure error={error} again={reset} />,
  scrollRestoration: true,
})
