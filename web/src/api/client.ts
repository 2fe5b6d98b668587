import createClient, { type Middleware } from 'openapi-fetch'
import { basePath } from '@/app/base'
import { token } from '@/app/session'
import type { components, paths } from './schema'

/** What the client makes of a record: it takes a pair for a list. */
type Answered<T> = T extends (infer One)[]
  ? Answered<One>[]
  : T extends object
    ? { [Key in keyof T]: Answered<T[Key]> }
    : T

/** A record of the API by its name in the OpenAPI document: `Api<'JobSummary'>`. */
export type Api<Name extends keyof components['schemas']> = Answered<components['schemas'][Name]>

/** What went wrong, in the server's own words: what, where, what to do. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly at: string,
    readonly try_: string,
    readonly errors: readonly ProblemItem[] = [],
  ) {
    super(message)
  }
}

export interface ProblemItem {
  message: string
  code?: string
  at?: string
  try?: string
}

const authorize: Middleware = {
  onRequest({ request }) {
    const secret = token()
    if (secret) request.headers.set('Authorization', `Bearer ${secret}`)
    return request
  },
}

export const client = createClient<paths>({
  baseUrl: `${window.location.origin}${basePath}`,
  // Looked up with each request: tests put another one in its place.
  fetch: (request) => globalThis.fetch(request),
})
client.use(authorize)

/** The data of an answer; throws an ApiError where there is none: `await ok(client.GET('/api/v1/jobs'))`. */
export async function ok<Data>(asked: Promise<{ data?: Data; error?: unknown; response: Response }>): Promise<Data> {
  let answer: { data?: Data; error?: unknown; response: Response }
  try {
    answer = await asked
  } catch (problem) {
    throw new ApiError(0, 'no-answer', `the server did not answer: ${String(problem)}`, '', 'is `assay serve` running?')
  }
  if (answer.response.ok) return answer.data as Data
  throw problemOf(answer.response.status, answer.error)
}

function problemOf(status: number, body: unknown): ApiError {
  const problem = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>
  const text = (key: string, otherwise = '') =>
    typeof problem[key] === 'string' ? (problem[key] as string) : otherwise
  const errors = Array.isArray(problem.errors) ? (problem.errors as ProblemItem[]) : []
  return new ApiError(
    status,
    text('code', `http-${status}`),
    text('detail', `the server answered ${status}`),
    text('at'),
    text('try'),
    errors,
  )
}
