/** Stored benchmarks, and the editor of their files. */
import { queryOptions } from '@tanstack/react-query'
import { type Api, client, ok } from '@/api/client'
import { byPages, PAGE } from '@/api/queries/paging'

export const benchmarksQuery = (text = '') =>
  byPages(['benchmarks', text], (cursor) =>
    ok(client.GET('/api/v1/benchmarks', { params: { query: { text, limit: 100, cursor } } })),
  )

/** The headline metric of benchmarks over time; at most 100 names. */
export const headlinesQuery = (names: string[]) =>
  queryOptions({
    queryKey: ['headlines', names],
    queryFn: () => ok(client.GET('/api/v1/benchmarks/headlines', { params: { query: { name: names } } })),
    enabled: names.length > 0,
    staleTime: 30_000,
  })

export const benchmarkQuery = (name: string, version?: number) =>
  queryOptions({
    queryKey: ['benchmark', name, version ?? 'newest'],
    queryFn: () => ok(client.GET('/api/v1/benchmarks/{name}', { params: { path: { name }, query: { version } } })),
  })

export const benchmarkVersionsQuery = (name: string) =>
  queryOptions({
    queryKey: ['benchmark', name, 'versions'],
    queryFn: () => ok(client.GET('/api/v1/benchmarks/{name}/versions', { params: { path: { name } } })),
  })

/** What would happen if a stored benchmark were submitted now. */
export const benchmarkCheckQuery = (benchmark: string, version?: number) =>
  queryOptions({
    queryKey: ['benchmark', benchmark, 'check', version ?? 'newest'],
    queryFn: () => ok(client.POST('/api/v1/benchmarks/check', { body: { benchmark, version, agent: '' } })),
  })

/** Stored benchmarks that can be put on a schedule. */
export const benchmarkNamesQuery = (text = '') =>
  queryOptions({
    queryKey: ['benchmarks', 'names', text],
    queryFn: () => ok(client.GET('/api/v1/benchmarks', { params: { query: { text, limit: PAGE } } })),
  })

export const fileSchemaQuery = () =>
  queryOptions({
    queryKey: ['schema'],
    queryFn: () => ok(client.GET('/api/v1/schema')),
    staleTime: Number.POSITIVE_INFINITY,
  })

/** What a text holds and what is wrong with it. Nothing is kept on the server. */
export const fileReadQuery = (text: string, format: 'yaml' | 'toml', files: Record<string, Api<'JobFile'>[]>) =>
  queryOptions({
    queryKey: ['read', format, text, files],
    queryFn: () => ok(client.POST('/api/v1/benchmarks/read', { body: { text, format, files } })),
    staleTime: 10_000,
    gcTime: 60_000,
  })

/** A stored benchmark to start from: no other save may change what is being written. */
export const fileStoredQuery = (name: string, version?: number) =>
  queryOptions({
    queryKey: ['stored', name, version],
    queryFn: () =>
      ok(client.GET('/api/v1/benchmarks/{name}', { params: { path: { name }, query: version ? { version } : {} } })),
    staleTime: 60_000,
  })
