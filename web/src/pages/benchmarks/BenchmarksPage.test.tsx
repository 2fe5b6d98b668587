import { screen, within } from '@testing-library/react'
import { expect, it } from 'vitest'
import BenchmarksPage from '@/pages/benchmarks/BenchmarksPage'
import { answer, showPage } from '@/testing/page'

const point = (at: number, value: number) => ({ at, value, standard_error: 0.2 })
const HEADLINE = {
  benchmark: '<img src=x>',
  metric: 'latency_ms',
  unit: 'ms',
  better: 'lower',
  series: 's1',
  label: 'batch=8',
  points: [point(1, 10), point(2, 12)],
  median: 12,
  interval: { low: 11.6, high: 12.4, level: 0.95, method: '' },
  verdict: 'suspect',
}
const summary = (name: string) => ({ name, version: 3, created_at: 1_790_000_000, changed_at: 1_794_000_000 })
const show = (search = '') => showPage(BenchmarksPage, '/benchmarks', `/benchmarks${search}`)

it('lists benchmarks with the trend of their headline metric, its newest value and its doubt', async () => {
  const { asked } = answer({
    'GET /api/v1/benchmarks': { items: [summary('<img src=x>'), summary('new one')], next: null },
    'GET /api/v1/benchmarks/headlines': { items: [HEADLINE], next: null },
  })
  const { container } = show()
  expect(
    await screen.findByRole('img', { name: 'latency_ms, 2 results, from 10.0 to 12.0 ms, lower is better' }),
  ).toBeTruthy()
  const row = within(screen.getByRole('row', { name: /<img src=x>/ }))
  expect(row.getByText('[11.6, 12.4]')).toBeTruthy()
  expect(row.getByText('suspect')).toBeTruthy()
  expect(within(screen.getByRole('row', { name: /new one/ })).getByText('not measured yet')).toBeTruthy()
  expect(container.querySelector('img[src]')).toBeNull()
  const query = new URL(asked.find((one) => one.url.includes('headlines'))?.url ?? '').searchParams
  expect(query.getAll('name')).toEqual(['<img src=x>', 'new one'])
})

it('searches by what the address says', async () => {
  const { asked } = answer({ 'GET /api/v1/benchmarks': { items: [], next: null } })
  show('?text=chat')
  expect(await screen.findByText('No stored benchmark has a name like that.')).toBeTruthy()
  expect(asked[0]?.url).toContain('text=chat')
})

it('tells an empty server how to begin', async () => {
  answer({ 'GET /api/v1/benchmarks': { items: [], next: null } })
  show()
  expect(await screen.findByText('No benchmark is stored yet.')).toBeTruthy()
})

it('shows the list even where the trends cannot be read', async () => {
  answer({
    'GET /api/v1/benchmarks': { items: [summary('chat')], next: null },
    'GET /api/v1/benchmarks/headlines': 500,
  })
  show()
  expect(await screen.findByRole('link', { name: 'chat' })).toBeTruthy()
  expect((await screen.findByRole('alert')).textContent).toContain('failed with 500')
})
