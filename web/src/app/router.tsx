import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router'
import { basePath } from '@/app/base'
import { Frame } from '@/app/Frame'
import { PAGES } from '@/pages/pages'
import { PageFailure } from '@/parts/Failure'
import { Loading } from '@/parts/Loading'
import { NotFound } from '@/parts/NotFound'

const root = createRootRoute({ component: Frame, notFoundComponent: NotFound })

/** The choices of a view, as the address has them: every page reads and checks its own. */
export type Choices = Record<string, unknown>
const keep = (search: Choices): Choices => search

const routes = root.addChildren(
  Object.entries(PAGES).map(([path, load]) =>
    createRoute({
      getParentRoute: () => root,
      path,
      validateSearch: keep,
      component: lazyRouteComponent<{ default: React.ComponentType }>(load),
    }),
  ),
)

export const router = createRouter({
  routeTree: routes,
  basepath: basePath || '/',
  defaultPreload: 'intent',
  defaultPendingComponent: () => <Loading what="the page" />,
  defaultErrorComponent: ({ error, reset }) => <PageFailure error={error} again={reset} />,
  scrollRestoration: true,
})
