/** Series with their points, and what was found in them. */
import { queryOptions } from '@tanstack/react-query'
import { type Api, client, ok } from '@/api/client'
import { byPages, PAGE } from '@/api/queries/paging'

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
  byPages(['series', 'list', filter], (cursor) =>
    ok(client.GET('/api/v1/series', { params: { query: { ...filter, limit: PAGE, cursor } } })),
  )

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
  let cursor: string | undefined
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
  byPages(['findings', filter], (cursor) =>
    ok(client.GET('/api/v1/findings', { params: { query: { ...filter, limit: PAGE, cursor } } })),
  )
