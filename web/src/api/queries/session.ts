/** Who is signed in, and what there is to see first. */
import { queryOptions } from '@tanstack/react-query'
import { client, ok } from '@/api/client'

export const sessionQuery = () =>
  queryOptions({ queryKey: ['session'], queryFn: () => ok(client.GET('/api/v1/session')), staleTime: 60_000 })

export const overviewQuery = () =>
  queryOptions({ queryKey: ['overview'], queryFn: () => ok(client.GET('/api/v1/overview')) })
