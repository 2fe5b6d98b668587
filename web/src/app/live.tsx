import { useQueryClient } from '@tanstack/react-query'
import { createContext, type ReactNode, useContext, useEffect, useState } from 'react'
import { address } from '@/app/base'
import { useToken } from '@/app/session'
import { type LiveEvent, readEvents } from '@/app/stream'

/** `live`: the server tells us; `polling`: it cannot, so we ask every few seconds. */
export type Liveness = 'connecting' | 'live' | 'polling'

const Now = createContext<Liveness>('connecting')
const TRIES_BEFORE_POLLING = 2
const POLL_MS = 5_000
const AGAIN_MS = 3_000
// Many events of one moment cause one question.
const GATHER_MS = 1_000

export function useLiveness(): Liveness {
  return useContext(Now)
}

/** How often a query that changes by itself is to be asked again: never while the server tells us. */
export function usePollMs(): number | false {
  return useLiveness() === 'polling' ? POLL_MS : false
}

/** Follow the server's events and have the queries that they touch asked again. */
export function LiveUpdates({ children }: { children: ReactNode }) {
  const client = useQueryClient()
  const token = useToken()
  const [liveness, setLiveness] = useState<Liveness>('connecting')
  useEffect(() => {
    const stop = new AbortController()
    const touched = new Set<string>()
    let timer: ReturnType<typeof setTimeout> | undefined
    const gather = (event: LiveEvent) => {
      for (const key of keysOf(event)) touched.add(key)
      timer ??= setTimeout(() => {
        timer = undefined
        const keys = new Set(touched)
        touched.clear()
        void client.invalidateQueries({ predicate: (query) => keys.has(String(query.queryKey[0])) })
      }, GATHER_MS)
    }
    void follow(stop.signal, token, setLiveness, gather)
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [client, token])
  return <Now.Provider value={liveness}>{children}</Now.Provider>
}

const OF_PROGRESS = ['campaign', 'job', 'jobs', 'overview', 'logs']
const OF_EVERYTHING = [
  ...OF_PROGRESS,
  'agents',
  'alerts',
  'campaigns',
  'findings',
  'placement',
  'results',
  'schedules',
  'series',
]
const OF_A_RESULT = [...OF_EVERYTHING, 'compare', 'headlines']

/** The first words of the query keys that an event touches. */
export function keysOf(event: Pick<LiveEvent, 'kind'>): readonly string[] {
  if (event.kind === 'progress') return OF_PROGRESS
  return event.kind === 'result accepted' ? OF_A_RESULT : OF_EVERYTHING
}

async function follow(
  signal: AbortSignal,
  token: string,
  tell: (now: Liveness) => void,
  on: (event: LiveEvent) => void,
): Promise<void> {
  let failed = 0
  let last = ''
  while (!signal.aborted) {
    try {
      const headers: Record<string, string> = token ? { Authorization: `Bearer ${token}` } : {}
      if (last) headers['Last-Event-ID'] = last
      const answer = await fetch(address('/api/v1/events'), { headers, signal })
      if (!answer.ok || answer.body === null) throw new Error(`events: HTTP ${answer.status}`)
      failed = 0
      tell('live')
      for await (const event of readEvents(answer.body)) {
        last = event.id || last
        on(event)
      }
    } catch {
      if (signal.aborted) return
    }
    failed += 1
    if (failed >= TRIES_BEFORE_POLLING) tell('polling')
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
  }
}
