/**
 * What the questions of this folder share. They are every question that the pages ask, each with its key: the first word
 * of a key is what live events invalidate (app/live). Pages use these; no other code calls `client.GET`.
 */
import { infiniteQueryOptions, type QueryKey } from '@tanstack/react-query'

/** How many rows of a list are fetched per request by default. */
export const PAGE = 100

/** A list that comes in pages, each of which says where the next one begins. */
export const byPages = <Page extends { next?: string | null }>(
  queryKey: QueryKey,
  ask: (cursor: string | undefined) => Promise<Page>,
) =>
  infiniteQueryOptions({
    queryKey,
    queryFn: ({ pageParam }) => ask(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  })
