import { screen, within } from '@testing-library/react'
import { expect, test, vi } from 'vitest'
import AlertPage from '@/pages/alerts/AlertPage'
import { stretches } from '@/pages/alerts/History'
import { wordsFor } from '@/pages/alerts/life'
import { answer, showPage } from '@/testing/page'
import { alert, finding, HOSTILE, listed, points, SESSION, START, series } from '@/watching/examples'

vi.mock('@/charts/Chart', () => ({
  fetchCharts: () => {},
  Chart: ({ title, says }: { title: string; says: string }) => <figure aria-label={title}>{says}</figure>,
}))

const ID = alert().id
const ONE = `GET /api/v1/alerts/${ID}`
const OF_SERIES = '/api/v1/series/9c1f2ab34d5e6f70'
const usual = {
  'GET /api/v1/session': SESSION,
  'GET /api/v1/notices': listed(),
  [ONE]: alert(),
  [`GET ${OF_SERIES}`]: { series: series(), findings: [finding()] },
  [`GET ${OF_SERIES}/points`]: listed(...points()),
}
const show = () => showPage(AlertPage, '/alerts/$alert', `/alerts/${ID}`)

test('says what happened, what may explain it, and leads to series, job and campaign', async () => {
  answer(usual)
  show()
  expect(await screen.findByRole('heading', { level: 1, name: /10 % worse/ })).toBeTruthy()
  expect(screen.getByText('What may explain it: environment: driver 550 → 560.')).toBeTruthy()
  const row = within(screen.getByRole('region', { name: 'What the alert is about' })).getByRole('row', {
    name: /standing/,
  })
  expect(within(row).getByRole('link', { name: 'series' }).getAttribute('href')).toBe(
    '/series/9c1f2ab34d5e6f70#finding-0b7d3e5a91c2f468',
  )
  expect(within(row).getByRole('link', { name: 'job' }).getAttribute('href')).toBe('/jobs/c1-job-4')
  expect((await screen.findByRole('figure')).textContent).toContain('5 results')
})

test('an alert about a failed job draws no series, and cannot be expected', async () => {
  const members = alert().members.map((one) => ({ ...one, series: '', finding: '' }))
  const { asked } = answer({ ...usual, [ONE]: alert({ kind: 'failed', members }) })
  show()
  expect(await screen.findByRole('button', { name: 'Resolve' })).toBeTruthy()
  expect(screen.queryByRole('button', { name: 'Expected' })).toBeNull()
  expect(asked.some((one) => one.url.includes('/api/v1/series'))).toBe(false)
})

test('the actions follow the state', () => {
  expect(wordsFor(alert())).toEqual(['acknowledge', 'snooze', 'expect', 'resolve'])
  expect(wordsFor(alert({ state: 'acknowledged' }))).toContain('reopen')
  expect(wordsFor(alert({ state: 'resolved' }))).toEqual(['reopen'])
  expect(wordsFor(alert({ state: 'open', kind: 'agent-lost' }))).not.toContain('expect')
})

test('history tells who and why, the newest first, and puts together what repeats by itself', () => {
  const line = (happening: 'occur' | 'acknowledge', by: string) => ({
    at: START,
    happening,
    state: happening === 'occur' ? ('open' as const) : ('acknowledged' as const),
    by,
    why: 'because',
  })
  const found = stretches([
    line('occur', ''),
    line('occur', ''),
    line('acknowledge', 'ada'),
    line('acknowledge', 'bob'),
  ])
  expect(found.map((one) => [one.newest.by, one.lines.length])).toEqual([
    ['bob', 1],
    ['ada', 1],
    ['', 2],
  ])
})

test('who said it and why stands in the history, as text', async () => {
  const history = [
    { at: START, happening: 'acknowledge' as const, state: 'acknowledged' as const, by: 'ada', why: HOSTILE },
  ]
  answer({ ...usual, [ONE]: alert({ state: 'acknowledged', history }) })
  const { container } = show()
  expect((await screen.findByText('ada')).closest('li')?.textContent).toContain(`acknowledged by ada: ${HOSTILE}`)
  expect(container.querySelector('img')).toBeNull()
})

test('an alert that is not there tells the problem', async () => {
  answer({ ...usual, [ONE]: 404 })
  show()
  expect((await screen.findByRole('alert')).textContent).toContain('failed with 404')
})
