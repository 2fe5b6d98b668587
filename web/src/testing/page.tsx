import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createMemoryHistory, createRootRoute, createRoute, createRouter, RouterProvider } from '@tanstack/react-router'
import { render } from '@testing-library/react'
import type { FunctionComponent } from 'react'
import { vi } from 'vitest'
import { Toasts } from '@/parts/Toasts'

type Answers = Record<string, unknown>

/** What the server answers in a test: `'GET /api/v1/jobs': {...}`; a number is a failure with that status. */
export function answer(answers: Answers): { asked: Request[] } {
  const asked: Request[] = []
  vi.stubGlobal('fetch', async (input: Request | string | URL, init?: RequestInit) => {
    const request = new Request(input instanceof Request ? input : new URL(String(input), 'http://localhost'), init)
    asked.push(request.clone())
    const key = `${request.method} ${new URL(request.url).pathname}`
    const found = answers[key]
    if (found === undefined)
      return Response.json({ detail: `the test has no answer to ${key}`, code: 'no-answer' }, { status: 404 })
    if (typeof found === 'number')
      return Response.json({ detail: `failed with ${found}`, code: 'broken', try: 'again later' }, { status: found })
    return Response.json(typeof found === 'function' ? await found(request) : found)
  })
  return { asked }
}

/** Draw a page at an address, as the router would: `showPage(JobPage, '/jobs/$job', '/jobs/abc?tab=logs')`. */
export function showPage(page: FunctionComponent, path: string, address: string) {
  const root = createRootRoute()
  const route = createRoute({
    getParentRoute: () => root,
    path,
    component: page,
    validateSearch: (search: Record<string, unknown>) => search,
  })
  const others = path === '/' ? [] : [createRoute({ getParentRoute: () => root, path: '/', component: () => null })]
  const router = createRouter({
    routeTree: root.addChildren([route, ...others]),
    history: createMemoryHistory({ initialEntries: [address] }),
  })
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  const drawn = render(
    <QueryClientProvider client={client}>
      <Toasts>
        <RouterProvider router={router as never} />
      </Toasts>
    </QueryClientProvider>,
  )
  return { ...drawn, router }
}
