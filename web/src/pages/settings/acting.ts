import { useMutation, useQueryClient } from '@tanstack/react-query'
import { client, ok } from '@/api/client'
import { useTell } from '@/parts/Toasts'

/** Change a setting, show the outcome, and refetch its list. */
function useSetting<Wish, Made>(
  list: string,
  act: (wish: Wish) => Promise<Made>,
  failed: string,
  done?: (wish: Wish, made: Made) => string,
) {
  const tell = useTell()
  const cache = useQueryClient()
  return useMutation({
    mutationFn: act,
    onSuccess: async (made, wish) => {
      if (done) tell(done(wish, made))
      await cache.invalidateQueries({ queryKey: [list] })
    },
    onError: (problem) => tell(failed, problem),
  })
}

export type Role = 'admin' | 'user' | 'reader' | 'agent'
export interface TokenWish {
  name: string
  role: Role
  expires_in_s: number | null
}

export const useMakeToken = () =>
  useSetting('tokens', (body: TokenWish) => ok(client.POST('/api/v1/tokens', { body })), 'The token was not made')

export const useRevokeToken = () =>
  useSetting(
    'tokens',
    ({ id }: { id: string; name: string }) =>
      ok(client.DELETE('/api/v1/tokens/{token}', { params: { path: { token: id } } })),
    'The token was not revoked',
    ({ name }) => `The token ${name} no longer works`,
  )

export const useTestChannel = () =>
  useSetting(
    'channels',
    (name: string) => ok(client.POST('/api/v1/channels/{name}/test', { params: { path: { name } } })),
    'No test message was sent',
  )

export interface PriceWish {
  machine: string
  per_hour: number
  currency: string
  date: string
}

export const useSetPrice = () =>
  useSetting(
    'prices',
    ({ machine, ...body }: PriceWish) =>
      ok(client.PUT('/api/v1/prices/{machine}', { params: { path: { machine } }, body })),
    'The price was not kept',
    ({ machine }) => `The price of ${machine} was saved`,
  )

export const useRemovePrice = () =>
  useSetting(
    'prices',
    (machine: string) => ok(client.DELETE('/api/v1/prices/{machine}', { params: { path: { machine } } })),
    'The price was not removed',
    (machine) => `The price of ${machine} was removed`,
  )
