/**
 * Every question that the pages ask, with its key. The first word of a key is what live events invalidate (app/live).
 * Pages use these; nobody else calls `client.GET`.
 */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { type Api, client, ok } from '@/api/client'

export const sessionQuery = () =>
  queryOptions({ queryKey: ['session'], queryFn: () => ok(client.GET('/api/v1/session')), staleTime: 60_000 })

export const overviewQuery = () =>
  queryOptions({ queryKey: ['overview'], queryFn: () => ok(client.GET('/api/v1/overview')) })

export interface CampaignFilter {
  state?: string
  benchmark?: string
  text?: string
}

export const campaignsQuery = (filter: CampaignFilter = {}) =>
  infiniteQueryOptions({
    queryKey: ['campaigns', filter],
    queryFn: ({ pageParam }) =>
      ok(client.GET('/api/v1/campaigns', { params: { query: { ...filter, limit: 100, cursor: pageParam } as never } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  })

export const campaignQuery = (campaign: string) =>
  queryOptions({
    queryKey: ['campaign', campaign],
    queryFn: () => ok(client.GET('/api/v1/campaigns/{campaign}', { params: { path: { campaign } } })),
  })

export const jobQuery = (job: string) =>
  queryOptions({
    queryKey: ['job', job],
    queryFn: () => ok(client.GET('/api/v1/jobs/{job}', { params: { path: { job } } })),
  })

// Compare

export interface CompareWish {
  /** `campaign:ID`, `job:ID`, `agent:NAME` or `label:KEY=VALUE`; the first is the base. */
  sides: string[]
  metric?: string
  benchmark?: string
  /** Also where machine or settings differ: because that difference is the question. */
  anyway?: boolean
}

export const compareQuery = ({ sides, metric, benchmark, anyway }: CompareWish) =>
  queryOptions({
    queryKey: ['compare', sides, metric ?? '', benchmark ?? '', anyway ?? false],
    queryFn: () =>
      ok(
        client.GET('/api/v1/compare', {
          params: {
            query: {
              side: sides,
              ...(metric ? { metric: [metric] } : {}),
              ...(benchmark ? { benchmark } : {}),
              ...(anyway ? { anyway } : {}),
            },
          },
        }),
      ),
    enabled: sides.length >= 2,
    staleTime: 15_000,
  })

export interface FrontierWish {
  sides: string[]
  x: string
  y: string
  per?: 'watt' | 'dollar'
  benchmark?: string
}

export const frontierQuery = ({ sides, x, y, per, benchmark }: FrontierWish) =>
  queryOptions({
    queryKey: ['compare', 'frontier', sides, x, y, per ?? '', benchmark ?? ''],
    queryFn: () =>
      ok(
        client.GET('/api/v1/frontier', {
          params: { query: { side: sides, x, y, ...(per ? { per } : {}), ...(benchmark ? { benchmark } : {}) } },
        }),
      ),
    enabled: sides.length >= 1 && x !== '' && y !== '',
    staleTime: 15_000,
  })

export const campaignsFoundQuery = (text: string) =>
  queryOptions({
    queryKey: ['campaigns', 'found', text],
    queryFn: () => ok(client.GET('/api/v1/campaigns', { params: { query: { text, limit: 50 } } })),
  })

export const jobsFoundQuery = (text: string) =>
  queryOptions({
    queryKey: ['jobs', 'found', text],
    queryFn: () => ok(client.GET('/api/v1/jobs', { params: { query: { text, state: 'done', limit: 50 } } })),
  })

// Fleet

export const agentsQuery = () =>
  infiniteQueryOptions({
    queryKey: ['agents', 'all'],
    queryFn: ({ pageParam }) =>
      ok(client.GET('/api/v1/agents', { params: { query: { limit: 500, cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  })

export const agentQuery = (agent: string) =>
  queryOptions({
    queryKey: ['agents', 'one', agent],
    queryFn: () => ok(client.GET('/api/v1/agents/{agent}', { params: { path: { agent } } })),
  })

export const agentHardwareQuery = (agent: string) =>
  queryOptions({
    queryKey: ['hardware', agent],
    queryFn: () => ok(client.GET('/api/v1/agents/{agent}/hardware', { params: { path: { agent } } })),
    staleTime: 60_000,
  })

/** The newest jobs that an agent held, by its id. */
export const agentJobsQuery = (agent: string) =>
  queryOptions({
    queryKey: ['jobs', 'agent', agent],
    queryFn: () => ok(client.GET('/api/v1/jobs', { params: { query: { agent, limit: 50 } } })),
  })

export const pendingJobsQuery = () =>
  queryOptions({
    queryKey: ['jobs', 'pending'],
    queryFn: () => ok(client.GET('/api/v1/jobs', { params: { query: { state: 'pending', limit: 200 } } })),
  })

// Settings

export const tokensQuery = () => queryOptions({ queryKey: ['tokens'], queryFn: () => ok(client.GET('/api/v1/tokens')) })

export const channelsQuery = () =>
  queryOptions({ queryKey: ['channels'], queryFn: () => ok(client.GET('/api/v1/channels')) })

export const pricesQuery = () => queryOptions({ queryKey: ['prices'], queryFn: () => ok(client.GET('/api/v1/prices')) })

// Campaigns and benchmarks.

/** Jobs of a campaign in the order of its matrix, where it has more than the campaign itself lists. */
export const campaignJobsQuery = (campaign: string) =>
  infiniteQueryOptions({
    queryKey: ['jobs', { campaign }],
    queryFn: ({ pageParam }) =>
      ok(client.GET('/api/v1/jobs', { params: { query: { campaign, limit: 500, cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  })

/** The numbers of so many jobs are read for a campaign; each of the others has its own page. */
export const MOST_RESULTS = 2_000

async function resultsOf(campaign: string) {
  const found: Api<'ResultView'>[] = []
  let cursor: string | undefined
  do {
    const page = await ok(client.GET('/api/v1/results', { params: { query: { campaign, limit: 100, cursor } } }))
    found.push(...page.items)
    cursor = page.next ?? undefined
  } while (cursor !== undefined && found.length < MOST_RESULTS)
  return found
}

/** What a campaign has measured so far; `ended` is how many jobs have ended, since only then is there more to read. */
export const campaignResultsQuery = (campaign: string, ended: number) =>
  queryOptions({
    queryKey: ['campaign-results', campaign, ended],
    queryFn: () => resultsOf(campaign),
    placeholderData: (before) => (before?.[0]?.campaign === campaign ? before : undefined),
  })

/** Who can take the jobs of a campaign that still wait. */
export const placementQuery = (campaign: string) =>
  queryOptions({
    queryKey: ['placement', campaign],
    queryFn: () => ok(client.GET('/api/v1/campaigns/{campaign}/placement', { params: { path: { campaign } } })),
    refetchInterval: 15_000,
  })

/** The newest campaigns of a benchmark. */
export const recentCampaignsQuery = (benchmark: string, limit = 10) =>
  queryOptions({
    queryKey: ['campaigns', 'recent', benchmark, limit],
    queryFn: () => ok(client.GET('/api/v1/campaigns', { params: { query: { benchmark, limit } } })),
  })

export const benchmarksQuery = (text = '') =>
  infiniteQueryOptions({
    queryKey: ['benchmarks', text],
    queryFn: ({ pageParam }) =>
      ok(client.GET('/api/v1/benchmarks', { params: { query: { text, limit: 100, cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  })

/** The headline metric of benchmarks over time; at most 100 names. */
export const headlinesQuery = (names: string[]) =>
  queryOptions({
    queryKey: ['headlines', names],
    queryFn: () => ok(client.GET('/api/v1/benchmarks/headlines', { params: { query: { name: names } } })),
    enabled: names.length > 0,
    staleTime: 30_000,
  })

export const benchmarkQuery = (name: string, version?: number) =>
  queryOptions({
    queryKey: ['benchmark', name, version ?? 'newest'],
    queryFn: () => ok(client.GET('/api/v1/benchmarks/{name}', { params: { path: { name }, query: { version } } })),
  })

export const benchmarkVersionsQuery = (name: string) =>
  queryOptions({
    queryKey: ['benchmark', name, 'versions'],
    queryFn: () => ok(client.GET('/api/v1/benchmarks/{name}/versions', { params: { path: { name } } })),
  })

/** What would happen if a stored benchmark were submitted now. */
export const benchmarkCheckQuery = (benchmark: string, version?: number) =>
  queryOptions({
    queryKey: ['benchmark', benchmark, 'check', version ?? 'newest'],
    queryFn: () => ok(client.POST('/api/v1/benchmarks/check', { body: { benchmark, version, agent: '' } })),
  })

/** The schedule of a benchmark, which bears its name; null where it has none. */
export const scheduleOfQuery = (benchmark: string) =>
  queryOptions({
    queryKey: ['schedules', 'of', benchmark],
    queryFn: async () => {
      const found = await ok(client.GET('/api/v1/schedules', { params: { query: { text: benchmark, limit: 100 } } }))
      return found.items.find((one) => one.name === benchmark) ?? null
    },
  })

// Series, findings, alerts, schedules

type Next = string | undefined
const PAGE = 100
const POINTS_A_PAGE = 500
// What a browser can hold and draw; older points stay on the server.
const MOST_POINTS = 100_000

export interface SeriesFilter {
  benchmark?: string
  metric?: string
  text?: string
  origin?: '' | 'results' | 'import'
}

export const seriesListQuery = (filter: SeriesFilter = {}) =>
  infiniteQueryOptions({
    queryKey: ['series', 'list', filter],
    queryFn: ({ pageParam }) =>
      ok(client.GET('/api/v1/series', { params: { query: { ...filter, limit: PAGE, cursor: pageParam } } })),
    initialPageParam: undefined as Next,
    getNextPageParam: (page) => page.next ?? undefined,
  })

export const oneSeriesQuery = (series: string) =>
  queryOptions({
    queryKey: ['series', 'one', series],
    queryFn: () => ok(client.GET('/api/v1/series/{series}', { params: { path: { series } } })),
  })

/** All points of a series. Their number and the newest are in the key: they are read again only when there are more. */
export const pointsQuery = (series: string, points: number, newest: number | null | undefined) =>
  queryOptions({
    queryKey: ['points', series, points, newest],
    queryFn: () => allPoints(series),
    staleTime: Number.POSITIVE_INFINITY,
  })

async function allPoints(series: string): Promise<Api<'Point'>[]> {
  const found: Api<'Point'>[] = []
  let cursor: Next
  do {
    const query = { limit: POINTS_A_PAGE, cursor }
    const page = await ok(client.GET('/api/v1/series/{series}/points', { params: { path: { series }, query } }))
    found.push(...page.items)
    cursor = page.next ?? undefined
  } while (cursor !== undefined && found.length < MOST_POINTS)
  return found
}

export interface FindingFilter {
  series?: string
  benchmark?: string
  state?: '' | 'open' | 'expected' | 'gone'
}

export const findingsQuery = (filter: FindingFilter = {}) =>
  infiniteQueryOptions({
    queryKey: ['findings', filter],
    queryFn: ({ pageParam }) =>
      ok(client.GET('/api/v1/findings', { params: { query: { ...filter, limit: PAGE, cursor: pageParam } } })),
    initialPageParam: undefined as Next,
    getNextPageParam: (page) => page.next ?? undefined,
  })

export interface AlertFilter {
  state?: '' | 'active' | 'open' | 'acknowledged' | 'snoozed' | 'expected' | 'resolved'
  severity?: '' | 'info' | 'warning' | 'critical'
  benchmark?: string
  text?: string
}

export const alertsQuery = (filter: AlertFilter = {}) =>
  infiniteQueryOptions({
    queryKey: ['alerts', 'list', filter],
    queryFn: ({ pageParam }) =>
      ok(client.GET('/api/v1/alerts', { params: { query: { ...filter, limit: PAGE, cursor: pageParam } } })),
    initialPageParam: undefined as Next,
    getNextPageParam: (page) => page.next ?? undefined,
  })

export const alertQuery = (alert: string) =>
  queryOptions({
    queryKey: ['alerts', 'one', alert],
    queryFn: () => ok(client.GET('/api/v1/alerts/{alert}', { params: { path: { alert } } })),
  })

export interface NoticeFilter {
  alert?: string
  state?: '' | 'waiting' | 'sending' | 'sent' | 'given-up'
}

export const noticesQuery = (filter: NoticeFilter = {}) =>
  queryOptions({
    queryKey: ['alerts', 'notices', filter],
    queryFn: () => ok(client.GET('/api/v1/notices', { params: { query: { ...filter, limit: PAGE } } })),
  })

export const alertRulesQuery = () =>
  queryOptions({ queryKey: ['alerts', 'rules'], queryFn: () => ok(client.GET('/api/v1/alert-rules')) })

export interface ScheduleFilter {
  state?: '' | 'active' | 'paused'
  text?: string
}

export const schedulesQuery = (filter: ScheduleFilter = {}) =>
  infiniteQueryOptions({
    queryKey: ['schedules', 'list', filter],
    queryFn: ({ pageParam }) =>
      ok(client.GET('/api/v1/schedules', { params: { query: { ...filter, limit: PAGE, cursor: pageParam } } })),
    initialPageParam: undefined as Next,
    getNextPageParam: (page) => page.next ?? undefined,
  })

export const scheduleQuery = (schedule: string) =>
  queryOptions({
    queryKey: ['schedules', 'one', schedule],
    queryFn: () => ok(client.GET('/api/v1/schedules/{schedule}', { params: { path: { schedule } } })),
  })

export const firingsQuery = (schedule: string) =>
  infiniteQueryOptions({
    queryKey: ['schedules', 'firings', schedule],
    queryFn: ({ pageParam }) =>
      ok(
        client.GET('/api/v1/schedules/{schedule}/firings', {
          params: { path: { schedule }, query: { limit: PAGE, cursor: pageParam } },
        }),
      ),
    initialPageParam: undefined as Next,
    getNextPageParam: (page) => page.next ?? undefined,
  })

/** Stored benchmarks that can be put on a schedule. */
export const benchmarkNamesQuery = (text = '') =>
  queryOptions({
    queryKey: ['benchmarks', 'names', text],
    queryFn: () => ok(client.GET('/api/v1/benchmarks', { params: { query: { text, limit: PAGE } } })),
  })

/** A stored benchmark as it is now, with the files that it names. */
export const storedBenchmarkQuery = (name: string) =>
  queryOptions({
    queryKey: ['benchmarks', 'stored', name],
    queryFn: () => ok(client.GET('/api/v1/benchmarks/{name}', { params: { path: { name } } })),
  })

// Job

/** The metrics that answer a job's question, first things first; `version` changes when the job does. */
export const headlineQuery = (campaign: string, job: string, version: string) =>
  queryOptions({
    queryKey: ['job-headline', job, version],
    queryFn: async () => {
      const found = await ok(client.GET('/api/v1/results', { params: { query: { campaign, text: job, limit: 5 } } }))
      return found.items.find((one) => one.job === job) ?? null
    },
  })

/** The pictures of a job: dear to draw, so they are asked for again only when the job has changed. */
export const panelsQuery = (job: string, version: string) =>
  queryOptions({
    queryKey: ['job-panels', job, version],
    queryFn: () => ok(client.GET('/api/v1/jobs/{job}/panels', { params: { path: { job } } })),
    staleTime: Number.POSITIVE_INFINITY,
  })

const OUTPUTS_A_PAGE = 100

/** The answers that the runs of a job kept. */
export const outputsQuery = (job: string, version: string) =>
  infiniteQueryOptions({
    queryKey: ['job-outputs', job, version],
    queryFn: ({ pageParam }) =>
      ok(
        client.GET('/api/v1/jobs/{job}/outputs', {
          params: { path: { job }, query: { limit: OUTPUTS_A_PAGE, cursor: pageParam } },
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    staleTime: Number.POSITIVE_INFINITY,
  })

/** Scores that were computed of a job's answers after its result. */
export const scoresQuery = (job: string) =>
  queryOptions({
    queryKey: ['job-scores', job],
    queryFn: () => ok(client.GET('/api/v1/jobs/{job}/scores', { params: { path: { job } } })),
  })

/** Who can take the jobs of a campaign, asked for while a job waits. */
export const waitingQuery = (campaign: string) =>
  queryOptions({
    queryKey: ['jobs', 'waiting', campaign],
    queryFn: () => ok(client.GET('/api/v1/campaigns/{campaign}/placement', { params: { path: { campaign } } })),
  })

/** The lines of a job that were read so far. */
export interface LogSoFar {
  lines: Api<'LogLine'>[]
  next: number
  /** There are further lines already. */
  more: boolean
}

const LOG_PAGES_AT_ONCE = 20

async function readOn(job: string, before: LogSoFar | undefined): Promise<LogSoFar> {
  let now = before ?? { lines: [], next: 0, more: false }
  for (let page = 0; page < LOG_PAGES_AT_ONCE; page += 1) {
    const query = { after: now.next, limit: 1000 }
    const found = await ok(client.GET('/api/v1/jobs/{job}/logs', { params: { path: { job }, query } }))
    if (found.lines.length > 0) now = { lines: now.lines.concat(found.lines), next: found.next, more: found.more }
    if (!found.more) return now.more ? { ...now, more: false } : now
  }
  return now
}

/** The log of a job: what was read stays, and each question asks only for what followed. */
export const logsQuery = (job: string) =>
  queryOptions({
    queryKey: ['logs', job],
    queryFn: ({ client: cache, queryKey }) => readOn(job, cache.getQueryData<LogSoFar>(queryKey)),
    structuralSharing: false,
  })

// The editor of benchmark files

export const fileSchemaQuery = () =>
  queryOptions({
    queryKey: ['schema'],
    queryFn: () => ok(client.GET('/api/v1/schema')),
    staleTime: Number.POSITIVE_INFINITY,
  })

/** What a text holds and what is wrong with it. Nothing is kept on the server. */
export const fileReadQuery = (text: string, format: 'yaml' | 'toml', files: Record<string, Api<'JobFile'>[]>) =>
  queryOptions({
    queryKey: ['read', format, text, files],
    queryFn: () => ok(client.POST('/api/v1/benchmarks/read', { body: { text, format, files } })),
    staleTime: 10_000,
    gcTime: 60_000,
  })

/** A stored benchmark to begin from. */
export const fileStoredQuery = (name: string, version?: number) =>
  queryOptions({
    queryKey: ['stored', name, version],
    queryFn: () =>
      ok(client.GET('/api/v1/benchmarks/{name}', { params: { path: { name }, query: version ? { version } : {} } })),
    staleTime: 60_000,
  })
