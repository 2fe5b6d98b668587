import { QueryClient } from '@tanstack/react-query'
import { ApiError } from '@/api/client'

// Answers that a second try cannot change: bad questions, things that are not there, rights that are missing.
const isFinal = (problem: unknown) => problem instanceof ApiError && problem.status >= 400 && problem.status < 500

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      retry: (count, problem) => !isFinal(problem) && count < 2,
      refetchOnWindowFocus: true,
    },
  },
})
