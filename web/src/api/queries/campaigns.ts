/** Campaigns, their jobs and what these measured. */
import { queryOptions } from '@tanstack/react-query'
import { type Api, client, ok } from '@/api/client'
import { byPages } from '@/api/queries/paging'

export interface CampaignFilter {
  state?: string
  benchmark?: string
  text?: string
}

export const campaignsQuery = (filter: CampaignFilter = {}) =>
  byPages(['campaigns', filter], (cursor) =>
    ok(client.GET('/api/v1/campaigns', { params: { query: { ...filter, limit: 100, cursor } as never } })),
  )

export const campaignQuery = (campaign: string) =>
  queryOptions({
    queryKey: ['campaign', campaign],
    queryFn: () => ok(client.GET('/api/v1/campaigns/{campaign}', { params: { path: { campaign } } })),
  })

/** Jobs of a campaign in the order of its matrix, where it has more than the campaign itself lists. */
export const campaignJobsQuery = (campaign: string) =>
  byPages(['jobs', { campaign }], (cursor) =>
    ok(client.GET('/api/v1/jobs', { params: { query: { campaign, limit: 500, cursor } } })),
  )

/** The number of jobs whose figures are read for a campaign; each of the others has its own page. */
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

/** What a campaign answers, in words, with its table and doubts; `ended` as for its results. */
export const campaignAnswerQuery = (campaign: string, ended: number) =>
  queryOptions({
    queryKey: ['campaign-answer', campaign, ended],
    queryFn: () => ok(client.GET('/api/v1/campaigns/{campaign}/answer', { params: { path: { campaign } } })),
    placeholderData: (before) => before,
  })

/** The pictures over all jobs of a campaign; `ended` as for its results. */
export const campaignPanelsQuery = (campaign: string, ended: number) =>
  queryOptions({
    queryKey: ['campaign-panels', campaign, ended],
    queryFn: () => ok(client.GET('/api/v1/campaigns/{campaign}/panels', { params: { path: { campaign } } })),
    placeholderData: (before) => before,
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
