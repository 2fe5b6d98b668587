/** Tokens, channels and prices. */
import { queryOptions } from '@tanstack/react-query'
import { client, ok } from '@/api/client'

export const tokensQuery = () => queryOptions({ queryKey: ['tokens'], queryFn: () => ok(client.GET('/api/v1/tokens')) })

export const channelsQuery = () =>
  queryOptions({ queryKey: ['channels'], queryFn: () => ok(client.GET('/api/v1/channels')) })

export const pricesQuery = () => queryOptions({ queryKey: ['prices'], queryFn: () => ok(client.GET('/api/v1/prices')) })
