import { cleanup, configure } from '@testing-library/react'
import { afterEach, vi } from 'vitest'

// What has to appear is waited for, however busy the machine is; what must not appear is never waited for.
configure({ asyncUtilTimeout: 60_000 })

afterEach(() => {
  cleanup()
  sessionStorage.clear()
  localStorage.clear()
})

// jsdom does no layout: observers of sizes are never notified.
class NoResize {
  observe() {}
  unobserve() {}
  disconnect() {}
}
vi.stubGlobal('ResizeObserver', NoResize)
window.scrollTo = () => undefined
window.matchMedia ??= (query: string) =>
  ({ matches: false, media: query, addEventListener() {}, removeEventListener() {} }) as unknown as MediaQueryList
