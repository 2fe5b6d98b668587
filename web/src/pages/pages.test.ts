import { expect, it } from 'vitest'
import { PAGES, placeOf } from '@/pages/pages'

it.each([
  ['/', '/'],
  ['', '/'],
  ['/benchmarks', '/benchmarks'],
  ['/benchmarks/', '/benchmarks'],
  ['/benchmarks/new', '/benchmarks/new'],
  ['/benchmarks/chat%20capacity', '/benchmarks/$benchmark'],
  ['/jobs/c1-job-0', '/jobs/$job'],
  ['/settings', '/settings'],
])('%s is the page %s', (path, place) => {
  expect(placeOf(path)).toBe(place)
})

it.each(['/nowhere', '/jobs', '/campaigns/a/b', '/settings/x'])('%s is no page', (path) => {
  expect(placeOf(path)).toBeUndefined()
})

it('finds every page by its own path', () => {
  for (const place of Object.keys(PAGES)) expect(placeOf(place.replaceAll('$', 'a'))).toBe(place)
})
