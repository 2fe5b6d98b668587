import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { sessionQuery } from '@/api/queries/session'
import { useTell } from '@/parts/Toasts'

const MAY_CHANGE = ['admin', 'user']

/** Whether who looks may also change something: readers may not. */
export function useMayChange(): boolean {
  const session = useQuery(sessionQuery())
  return session.data !== undefined && (session.data.open || MAY_CHANGE.includes(session.data.role))
}

interface Act<Given, Answer> {
  /** What is asked of the server. */
  ask: (given: Given) => Promise<Answer>
  /** What to tell when it is done. */
  done: (answer: Answer, given: Given) => string
  /** What to tell when it is not; nothing where the problem is shown in place. */
  failed?: string
  /** First words of the keys of what it changes. */
  touches: readonly string[]
  /** What is done before what it changed is asked for again: leaving the page of something that is gone, say. */
  after?: (answer: Answer) => unknown
}

/** Change something on the server, show the outcome as a toast, and refresh what it touched. */
export function useAct<Given = void, Answer = unknown>({ ask, done, failed, touches, after }: Act<Given, Answer>) {
  const client = useQueryClient()
  const tell = useTell()
  return useMutation({
    mutationFn: ask,
    onSuccess: async (answer, given) => {
      tell(done(answer, given))
      await after?.(answer)
      await client.invalidateQueries({ predicate: (query) => touches.includes(String(query.queryKey[0])) })
    },
    onError: (problem) => {
      if (failed !== undefined) tell(failed, problem)
    },
  })
}
