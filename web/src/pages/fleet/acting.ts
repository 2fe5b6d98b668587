import { useMutation, useQueryClient } from '@tanstack/react-query'
import { client, ok } from '@/api/client'
import { useTell } from '@/parts/Toasts'

/** Do something to the fleet, tell the user what became of it, and have what is shown asked again. */
function useActing<Wish>(act: (wish: Wish) => Promise<unknown>, done: (wish: Wish) => string, failed: string) {
  const tell = useTell()
  const cache = useQueryClient()
  return useMutation({
    mutationFn: act,
    onSuccess: async (_, wish) => {
      tell(done(wish))
      await Promise.all([
        cache.invalidateQueries({ queryKey: ['agents'] }),
        cache.invalidateQueries({ queryKey: ['overview'] }),
      ])
    },
    onError: (problem) => tell(failed, problem),
  })
}

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
  return useActing(
    (body: Change) => ok(client.PATCH('/api/v1/agents/{agent}', { params: { path: { agent } }, body })),
    done,
    `${name} was not changed`,
  )
}

export function useResetAgent(agent: string, name: string) {
  return useActing(
    () => ok(client.POST('/api/v1/agents/{agent}/reset', { params: { path: { agent } } })),
    () => `${name} may take jobs again`,
    `${name} was not reset`,
  )
}

export function useRemoveAgent(agent: string, name: string) {
  return useActing(
    () => ok(client.DELETE('/api/v1/agents/{agent}', { params: { path: { agent } } })),
    () => `${name} was removed`,
    `${name} was not removed`,
  )
}

export interface Address {
  url: string
  token: string
  server: string
}

export function useAddAgent() {
  return useActing(
    (body: Address) => ok(client.POST('/api/v1/agents/add', { body })),
    ({ url }) => `The agent at ${url} works for this server`,
    'The agent was not added',
  )
}
