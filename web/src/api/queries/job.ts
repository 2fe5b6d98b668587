/** One job: its pictures, answers, scores and log. */
import { queryOptions } from '@tanstack/react-query'
import { type Api, client, ok } from '@/api/client'
import { byPages } from '@/api/queries/paging'

export const jobQuery = (job: string) =>
  queryOptions({
    queryKey: ['job', job],
    queryFn: () => ok(client.GET('/api/v1/jobs/{job}', { params: { path: { job } } })),
  })

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
export const outputsQuery = (job: string, version: string) => ({
  ...byPages(['job-outputs', job, version], (cursor) =>
    ok(
      client.GET('/api/v1/jobs/{job}/outputs', {
        params: { path: { job }, query: { limit: OUTPUTS_A_PAGE, cursor } },
      }),
    ),
  ),
  staleTime: Number.POSITIVE_INFINITY,
})

/** Scores that were computed of a job's answers after its result. */
export const scoresQuery = (job: string) =>
  queryOptions({
    queryKey: ['job-scores', job],
    queryFn: () => ok(client.GET('/api/v1/jobs/{job}/scores', { params: { path: { job } } })),
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
