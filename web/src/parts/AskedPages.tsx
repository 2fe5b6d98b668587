import type { ReactNode } from 'react'
import { Failure } from '@/parts/Failure'
import { Loading } from '@/parts/Loading'

interface Pages {
  data: unknown
  error: unknown
  refetch: () => unknown
  hasNextPage: boolean
  isFetchingNextPage: boolean
  fetchNextPage: () => unknown
}

/** A list that comes page by page: that it is awaited, why there is none, or what there is and a way to the rest. */
export function AskedPages({ query, what, children }: { query: Pages; what: string; children: ReactNode }) {
  if (query.data === undefined)
    return query.error ? <Failure error={query.error} again={() => void query.refetch()} /> : <Loading what={what} />
  return (
    <>
      {query.error !== null && <Failure error={query.error} />}
      {children}
      {query.hasNextPage && (
        <p>
          <button
            type="button"
            className="button"
            disabled={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            {query.isFetchingNextPage ? 'Loading…' : 'Show more'}
          </button>
        </p>
      )}
    </>
  )
}

/** What a table does when its end comes into sight. */
export function atEnd(query: Pages): () => void {
  return () => {
    if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage()
  }
}
