/** The pages and where they are found; `$name` in a path stands for any one word. */
export const PAGES = {
  '/': () => import('@/pages/overview/OverviewPage'),
  '/benchmarks': () => import('@/pages/benchmarks/BenchmarksPage'),
  '/benchmarks/new': () => import('@/pages/editor/NewBenchmarkPage'),
  '/benchmarks/$benchmark': () => import('@/pages/benchmarks/BenchmarkPage'),
  '/campaigns': () => import('@/pages/campaigns/CampaignsPage'),
  '/campaigns/$campaign': () => import('@/pages/campaigns/CampaignPage'),
  '/jobs/$job': () => import('@/pages/job/JobPage'),
  '/compare': () => import('@/pages/compare/ComparePage'),
  '/series': () => import('@/pages/series/SeriesListPage'),
  '/series/$series': () => import('@/pages/series/SeriesPage'),
  '/fleet': () => import('@/pages/fleet/FleetPage'),
  '/fleet/$agent': () => import('@/pages/fleet/AgentPage'),
  '/alerts': () => import('@/pages/alerts/AlertsPage'),
  '/alerts/$alert': () => import('@/pages/alerts/AlertPage'),
  '/schedules': () => import('@/pages/schedules/SchedulesPage'),
  '/schedules/$schedule': () => import('@/pages/schedules/SchedulePage'),
  '/settings': () => import('@/pages/settings/SettingsPage'),
} as const

export type Place = keyof typeof PAGES

/** The page at a path below the dashboard's own; those without a `$` go before the others. */
export function placeOf(path: string): Place | undefined {
  const words = path.split('/').filter((word) => word !== '')
  return (Object.keys(PAGES) as Place[]).find((place) => {
    const wanted = place.split('/').filter((word) => word !== '')
    return wanted.length === words.length && wanted.every((word, at) => word.startsWith('$') || word === words[at])
  })
}
