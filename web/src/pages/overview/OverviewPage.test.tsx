import { screen, within } from '@testing-library/react'
import { expect, it } from 'vitest'
import { campaign, job, SESSION } from '@/pages/campaigns/answers'
import OverviewPage from '@/pages/overview/OverviewPage'
import { answer, showPage } from '@/testing/page'

const SERIES = {
  id: 's1',
  benchmark: 'chat',
  metric: 'ttft_ms.p99',
  unit: 'ms',
  better: 'lower',
  point: { 'load.rate': 4 },
  labels: {},
  machine: {},
  origin: 'results',
  checked: 61,
  report: {},
  points: 61,
  newest: 1_794_000_000,
}
const CHANGE = {
  kind: 'step',
  index: 58,
  last_good: 57,
  first_bad: 58,
  range: [58, 58],
  before: 188.1,
  after: 213.9,
  difference: 25.8,
  difference_interval: { low: 22, high: 29.6, level: 0.95, method: '' },
  change: 0.137,
  interval: { low: 0.117, high: 0.157, level: 0.95, method: '' },
  chance: 1e-9,
  probability: 0.999,
  direction: 'worse',
  answer: 'worse',
  because: [],
}
const POINT = { id: 1, at: 1_794_000_000, value: 1 }
const FINDING = {
  id: 'f1',
  series: SERIES,
  finding: CHANGE,
  triage: { cause: 'environment', because: [], differs: [] },
  state: 'open',
  last_good: POINT,
  first_bad: POINT,
  found_at: 1_794_000_000,
}
const ALERT = {
  id: 'al1',
  title: 'chat is <b>worse</b>',
  state: 'open',
  severity: 'warning',
  says: 'ttft_ms.p99 rose',
  opened_at: 1_794_000_000,
}
const OVERVIEW = {
  empty: false,
  campaigns: 190,
  running: [
    campaign({
      id: 'c7',
      benchmark: 'chat <i>capacity</i>',
      state: 'running',
      jobs: 6,
      jobs_ended: 2,
      counts: { done: 2, running: 1, pending: 3 },
    }),
  ],
  last: [campaign()],
  failed: [job({ state: 'failed', verdict: null, reason: 'the command exited with code 4' })],
  findings_open: 119,
  moved: [FINDING],
  alerts_open: 1,
  alerts: [ALERT],
  jobs: { pending: 3, running: 1 },
  fleet: { agents: 20, healthy: 18, busy: 1, draining: 1, silent: 2 },
}
const show = (overview: unknown) => {
  answer({ 'GET /api/v1/session': SESSION, 'GET /api/v1/overview': overview })
  return showPage(OverviewPage, '/', '/')
}
const card = async (name: string) => within(await screen.findByRole('region', { name }))

it('says what runs, what failed, what moved and how the fleet is', async () => {
  show(OVERVIEW)
  expect(
    (await card('Runs now')).getByRole('img', { name: '2 of 6 jobs ended: 2 done, 1 running, 3 pending' }),
  ).toBeTruthy()
  expect((await card('What failed')).getByText('on rack-7: the command exited with code 4')).toBeTruthy()
  const moved = await card('What moved')
  expect(moved.getByRole('link', { name: 'ttft_ms.p99 of chat, rate=4' }).getAttribute('href')).toBe(
    '/series/s1#finding-f1',
  )
  expect(moved.getByText('+14 % [+12 %, +16 %]')).toBeTruthy()
  expect(moved.getByText('worse')).toBeTruthy()
  expect((await card('Fleet health')).getByRole('row', { name: /silent 2/ })).toBeTruthy()
})

it('begins with the numbers that count, each leading on', async () => {
  show(OVERVIEW)
  const figures = within(await screen.findByRole('list', { name: 'In short' }))
  const links = figures.getAllByRole('link').map((one) => one.getAttribute('href'))
  expect(links).toEqual(['/campaigns?state=running', '/#what-failed', '/series?tab=changes', '/alerts', '/fleet'])
  expect(figures.getByText('119')).toBeTruthy()
  expect(figures.getByText('18 of 20')).toBeTruthy()
})

it('says so where nothing runs, failed or moved', async () => {
  show({
    ...OVERVIEW,
    running: [],
    failed: [],
    moved: [],
    findings_open: 0,
    alerts: [],
    alerts_open: 0,
    jobs: { pending: 0, running: 0 },
  })
  expect(await screen.findByText('Nothing runs.')).toBeTruthy()
  expect(screen.getByText('No job has failed.')).toBeTruthy()
  expect(screen.getByText('No alert is open.')).toBeTruthy()
  expect(screen.getByText(/No metric has moved/)).toBeTruthy()
})

it('shows an empty server the three commands to start', async () => {
  show({ ...OVERVIEW, empty: true, campaigns: 0, fleet: { agents: 0, healthy: 0, busy: 0, draining: 0, silent: 0 } })
  const server = window.location.origin
  const steps = await screen.findAllByRole('listitem')
  const commands = steps.map((one) => one.querySelector('code')?.textContent)
  expect(commands).toEqual([
    `assay agent start --server ${server}`,
    'assay init squeezenet --out bench.yaml',
    `assay run bench.yaml --server ${server}`,
  ])
  expect(await screen.findByText(/requires a token/)).toBeTruthy()
})

it('shows what users wrote as text', async () => {
  const { container } = show(OVERVIEW)
  expect(await screen.findByText('chat <i>capacity</i>')).toBeTruthy()
  expect(screen.getByText('chat is <b>worse</b>')).toBeTruthy()
  expect(container.querySelector('li i, li b')).toBeNull()
})

it('says why there is nothing to see', async () => {
  show(500)
  expect((await screen.findByRole('alert')).textContent).toContain('failed with 500')
})

it('still says how to begin where an agent waits for its first job', async () => {
  show({ ...OVERVIEW, campaigns: 0, fleet: { agents: 1, healthy: 1, busy: 0, draining: 0, silent: 0 } })
  expect(await screen.findByText(/one agent is enrolled already, so the first is done/)).toBeTruthy()
})
