import { client, ok } from '@/api/client'
import { useAct } from '@/app/acting'

const touches = ['agents', 'overview'] as const

export interface Change {
  draining?: boolean
  labels?: Record<string, string | null>
}

export function useChangeAgent(agent: string, name: string) {
  const done = ({ draining }: Change) =>
    draining === undefined
      ? `The labels of ${name} were changed`
      : draining
        ? `${name} finishes what it holds and gets nothing new`
        : `${name} takes jobs again`
  return useAct({
    ask: (body: Change) => ok(client.PATCH('/api/v1/agents/{agent}', { params: { path: { agent } }, body })),
    done: (_, change) => done(change),
    failed: `${name} was not changed`,
    touches,
  })
}

export function useResetAgent(agent: string, name: string) {
  return useAct({
    ask: () => ok(client.POST('/api/v1/agents/{agent}/reset', { params: { path: { agent } } })),
    done: () => `${name} may take jobs again`,
    failed: `${name} was not reset`,
    touches,
  })
}

/** Remove an agent; `leave` leads away from its page, where it would be asked for again. */
export function useRemoveAgent(agent: string, name: string, leave: () => unknown) {
  return useAct({
    ask: () => ok(client.DELETE('/api/v1/agents/{agent}', { params: { path: { agent } } })),
    done: () => `${name} was removed`,
    failed: `${name} was not removed`,
    touches,
    after: leave,
  })
}

export interface Address {
  url: string
  token: string
  server: string
}

export function useAddAgent() {
  return useAct({
    ask: (body: Address) => ok(client.POST('/api/v1/agents/add', { body })),
    done: (_, { url }) => `The agent at ${url} takes jobs from this server`,
    failed: 'The agent was not added',
    touches,
  })
}
