/** Agents, their machines and what they do. */
import { queryOptions } from '@tanstack/react-query'
import { client, ok } from '@/api/client'
import { byPages } from '@/api/queries/paging'

export const agentsQuery = () =>
  byPages(['agents', 'all'], (cursor) =>
    ok(client.GET('/api/v1/agents', { params: { query: { limit: 500, cursor } } })),
  )

export const agentQuery = (agent: string) =>
  queryOptions({
    queryKey: ['agents', 'one', agent],
    queryFn: () => ok(client.GET('/api/v1/agents/{agent}', { params: { path: { agent } } })),
  })

export const agentHardwareQuery = (agent: string) =>
  queryOptions({
    queryKey: ['hardware', agent],
    queryFn: () => ok(client.GET('/api/v1/agents/{agent}/hardware', { params: { path: { agent } } })),
    staleTime: 60_000,
  })

/** The newest jobs that an agent held, by its id. */
export const agentJobsQuery = (agent: string) =>
  queryOptions({
    queryKey: ['jobs', 'agent', agent],
    queryFn: () => ok(client.GET('/api/v1/jobs', { params: { query: { agent, limit: 50 } } })),
  })

export const pendingJobsQuery = () =>
  queryOptions({
    queryKey: ['jobs', 'pending'],
    queryFn: () => ok(client.GET('/api/v1/jobs', { params: { query: { state: 'pending', limit: 200 } } })),
  })
