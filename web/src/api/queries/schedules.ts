/** Schedules, and the outcome of each due time. */
import { queryOptions } from '@tanstack/react-query'
import { client, ok } from '@/api/client'
import { byPages, PAGE } from '@/api/queries/paging'

/** The schedule of a benchmark, which bears its name; null where it has none. */
export const scheduleOfQuery = (benchmark: string) =>
  queryOptions({
    queryKey: ['schedules', 'of', benchmark],
    queryFn: async () => {
      const found = await ok(client.GET('/api/v1/schedules', { params: { query: { text: benchmark, limit: 100 } } }))
      return found.items.find((one) => one.name === benchmark) ?? null
    },
  })

export interface ScheduleFilter {
  state?: '' | 'active' | 'paused'
  text?: string
}

export const schedulesQuery = (filter: ScheduleFilter = {}) =>
  byPages(['schedules', 'list', filter], (cursor) =>
    ok(client.GET('/api/v1/schedules', { params: { query: { ...filter, limit: PAGE, cursor } } })),
  )

export const scheduleQuery = (schedule: string) =>
  queryOptions({
    queryKey: ['schedules', 'one', schedule],
    queryFn: () => ok(client.GET('/api/v1/schedules/{schedule}', { params: { path: { schedule } } })),
  })

export const firingsQuery = (schedule: string) =>
  byPages(['schedules', 'firings', schedule], (cursor) =>
    ok(
      client.GET('/api/v1/schedules/{schedule}/firings', {
        params: { path: { schedule }, query: { limit: PAGE, cursor } },
      }),
    ),
  )
