import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Failure } from '@/parts/Failure'
import { Loading } from '@/parts/Loading'

/** The answer to a question, or that it is awaited, or why there is none. */
export function Asked<Data>({
  query,
  what,
  children,
}: {
  query: UseQueryResult<Data>
  what: string
  children: (data: Data) => ReactNode
}) {
  if (query.data !== undefined)
    return (
      <>
        {query.error && <Failure error={query.error} />}
        {children(query.data)}
      </>
    )
  if (query.error) return <Failure error={query.error} again={() => void query.refetch()} />
  return <Loading what={what} />
}
