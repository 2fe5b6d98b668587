/** Sides beside each other, and what can be one. */
import { queryOptions } from '@tanstack/react-query'
import { client, ok } from '@/api/client'

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
