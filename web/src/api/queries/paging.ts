/**
 * What the questions of this folder share. They are every question that the pages ask, each with its key: the first word
 * of a key is what live events invalidate (app/live). Pages use these; nobody else calls `client.GET`.
 */

/** How many rows of a list are asked for at once, where nothing speaks for more. */
export const PAGE = 100

/** How a list that comes in pages is read on: each says where the next one begins. */
export const byPages = {
  initialPageParam: undefined as string | undefined,
  getNextPageParam: (page: { next?: string | null }) => page.next ?? undefined,
}
