import { screen, waitFor, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { expect, it } from 'vitest'
import { campaign, job, READER, result, SESSION } from '@/pages/campaigns/answers'
import CampaignPage from '@/pages/campaigns/CampaignPage'
import { answer, showPage } from '@/testing/page'

const JOBS = [
  job(),
  job({
    id: 'c1-job-1',
    index: 1,
    label: 'batch=1 threads=2',
    state: 'running',
    verdict: null,
    ended_at: null,
    progress: { run: 1, runs: 5, phase: 'measure', share: 0 },
    point: { 'workload.batch': 1, 'target.threads': 2 },
  }),
  job({
    id: 'c1-job-2',
    index: 2,
    label: 'batch=8 threads=1',
    state: 'failed',
    verdict: null,
    reason: 'error[command]: <b>it fell over</b>',
    point: { 'workload.batch': 8, 'target.threads': 1 },
  }),
  job({
    id: 'c1-job-3',
    index: 3,
    label: 'batch=8 threads=2',
    state: 'pending',
    verdict: null,
    agent_name: null,
    started_at: null,
    ended_at: null,
    point: { 'workload.batch': 8, 'target.threads': 2 },
  }),
]
const FULL = {
  ...campaign({
    benchmark: 'image <i>classifier</i>',
    state: 'running',
    completed_at: null,
    jobs_ended: 2,
    counts: { done: 1, running: 1, failed: 1, pending: 1 },
  }),
  runs: 20,
  job_list: JOBS,
}
const PLACED = { placeable: true, says: 'every job has an agent that can take it', groups: [] }
const WRITTEN = {
  title: 'image classifier · 4 jobs',
  sentences: ['Fastest: batch=1 threads=1, latency_ms 21.13 (20.97 to 21.30).', '1 of 1 result is suspect.'],
  columns: [
    { metric: 'latency_ms', unit: 'ms', better: 'lower' },
    { metric: 'throughput_per_s', unit: '1/s', better: 'higher' },
  ],
  lines: [
    {
      job: 'c1-job-0',
      index: 0,
      label: 'batch=1 threads=1',
      verdict: 'suspect',
      cells: [
        { value: '21.13', interval: '20.97 to 21.30', spread: '±0.8 %' },
        { value: '47', interval: '', spread: '±1 %' },
      ],
      reason: 'machine busy',
    },
    { job: 'c1-job-2', index: 2, label: 'batch=8 threads=1', verdict: 'failed', cells: [], reason: '' },
  ],
  doubts: [
    {
      check: 'machine quiet',
      severity: 'suspect',
      title: 'machine busy',
      jobs: ['c1-job-0'],
      worst: 'other programs used 66 % (limit 10 %)',
      remedy: 'end other programs, or see: assay doctor',
    },
  ],
  more_doubts: 2,
  failures: [{ code: 'command', jobs: ['c1-job-2'], message: 'error[command]: it ended', remedy: 'see its log' }],
}
const PANELS = {
  items: [
    {
      key: 'overview:latency_ms',
      group: 'other',
      title: 'latency_ms of all jobs',
      says: 'Each dot is a job.',
      svg: '<svg class="chart" viewBox="0 0 1 1"></svg>',
      columns: ['job'],
      rows: [['batch=1']],
      wide: true,
    },
  ],
  absent: {},
}
const ANSWERS = {
  'GET /api/v1/campaigns/c1/answer': WRITTEN,
  'GET /api/v1/campaigns/c1/panels': PANELS,
  'GET /api/v1/session': SESSION,
  'GET /api/v1/campaigns/c1': FULL,
  'GET /api/v1/campaigns/c1/placement': PLACED,
  'GET /api/v1/results': {
    items: [result({ doubts: ['the <u>machine</u> was not quiet'], verdict: 'suspect' })],
    next: null,
  },
}
const show = (search = '') => showPage(CampaignPage, '/campaigns/$campaign', `/campaigns/c1${search}`)
const grid = () => screen.findByRole('region', { name: /^Jobs by/ })

it('lays the jobs out by the axes of the matrix, each with its state or its number and interval', async () => {
  answer(ANSWERS)
  show('?view=grid')
  const table = within(await grid())
  expect(table.getAllByRole('columnheader').map((one) => one.textContent)).toEqual(['batch', 'threads 1', 'threads 2'])
  expect(await table.findByText('21.13')).toBeTruthy()
  expect(table.getByText('[20.97, 21.30]')).toBeTruthy()
  expect(table.getByText('run 2 of 5, measure on rack-7')).toBeTruthy()
  expect(table.getByText('pending')).toBeTruthy()
})

it('counts running jobs by phase, and jobs by state', async () => {
  answer(ANSWERS)
  show()
  expect(
    await screen.findByRole('img', { name: '2 of 4 jobs ended: 1 done, 1 failed, 1 running, 1 pending' }),
  ).toBeTruthy()
  expect(screen.getByTitle('the samples that count').textContent).toContain('measure 1')
  expect(screen.getByTitle('the target is started, cold').textContent).toContain('load 0')
})

it('keeps the chosen axes in the address', async () => {
  answer(ANSWERS)
  const { router } = show()
  await userEvent.click(await screen.findByRole('tab', { name: 'Grid' }))
  await userEvent.selectOptions(await screen.findByLabelText('Rows'), 'target.threads')
  await waitFor(() =>
    expect(router.state.location.search).toMatchObject({ rows: 'target.threads', columns: 'workload.batch' }),
  )
  expect(
    within(await grid())
      .getAllByRole('columnheader')
      .map((one) => one.textContent),
  ).toEqual(['threads', 'batch 1', 'batch 8'])
})

it('shows what users wrote as text, never as markup', async () => {
  answer(ANSWERS)
  const { container } = show('?view=grid')
  expect(await screen.findByRole('heading', { level: 1, name: 'image <i>classifier</i>' })).toBeTruthy()
  expect(within(await grid()).getByText('error[command]: <b>it fell over</b>')).toBeTruthy()
  expect(await screen.findByTitle('the <u>machine</u> was not quiet')).toBeTruthy()
  expect(container.querySelector('main i, td b, u')).toBeNull()
})

it('asks before it cancels, then shows the outcome', async () => {
  const { asked } = answer({
    ...ANSWERS,
    'POST /api/v1/campaigns/c1/cancel': { id: 'c1', state: 'cancelled', jobs: ['c1-job-1', 'c1-job-3'] },
  })
  show()
  await userEvent.click(await screen.findByRole('button', { name: 'Cancel' }))
  expect(asked.some((one) => one.method === 'POST')).toBe(false)
  await userEvent.click(within(screen.getByRole('dialog')).getByRole('button', { name: 'Cancel' }))
  expect(await screen.findByText('Cancelled 2 jobs')).toBeTruthy()
})

it('offers one job again, and all that failed', async () => {
  const { asked } = answer({
    ...ANSWERS,
    'POST /api/v1/jobs/c1-job-2/retry': { job: 'c1-job-2', state: 'pending' },
    'POST /api/v1/campaigns/c1/retry': { id: 'c1', state: 'running', jobs: ['c1-job-2'] },
  })
  show()
  await screen.findAllByText('21.13')
  await userEvent.click(await screen.findByRole('button', { name: 'Retry batch=8 threads=1' }))
  expect(await screen.findByText('batch=8 threads=1 is pending now')).toBeTruthy()
  await userEvent.click(screen.getByRole('button', { name: 'Retry 1 job' }))
  expect(await screen.findByText('Offered 1 job again')).toBeTruthy()
  expect(asked.filter((one) => one.method === 'POST')).toHaveLength(2)
})

it('gives a reader nothing to change, and the results to take away', async () => {
  answer({ ...ANSWERS, 'GET /api/v1/session': READER })
  show()
  expect(await screen.findByRole('link', { name: /Download CSV/ })).toHaveProperty(
    'pathname',
    '/api/v1/campaigns/c1/results.csv',
  )
  expect(screen.queryByRole('button', { name: /Cancel|Retry|Run again|Remove/ })).toBeNull()
})

it('says which jobs no agent can take, and what each agent lacks', async () => {
  const group = {
    needs: 'a GPU with 16 GiB',
    key: 'k',
    jobs: 1,
    waiting: 1,
    agents: [],
    missing: { 'rack-7': ['it has no GPU'] },
    machines: 1,
  }
  answer({
    ...ANSWERS,
    'GET /api/v1/campaigns/c1/placement': { placeable: false, says: '1 job cannot be placed', groups: [group] },
  })
  show()
  expect(await screen.findByText('it has no GPU')).toBeTruthy()
  expect(screen.getByRole('heading', { name: '1 job: a GPU with 16 GiB' })).toBeTruthy()
})

it('says why there is nothing to show', async () => {
  answer({ 'GET /api/v1/session': SESSION, 'GET /api/v1/campaigns/c1': 500 })
  show()
  expect((await screen.findByRole('alert')).textContent).toContain('failed with 500')
})

it('sorts the results as the address says', async () => {
  answer(ANSWERS)
  show('?sort=-job')
  const table = within(await screen.findByRole('region', { name: 'Results of the jobs' }))
  const labels = table.getAllByRole('link').map((one) => one.textContent)
  expect(labels).toEqual(['batch=8 threads=2', 'batch=8 threads=1', 'batch=1 threads=2', 'batch=1 threads=1'])
})

it('sorts by the number of a metric and shows the interval of a score', async () => {
  const columns = [...WRITTEN.columns, { metric: 'recall', unit: '', better: 'higher', is_quality: true }]
  const cells = (value: string, recall: string) => [
    { value, interval: '', spread: '±1 %' },
    { value: '47', interval: 'not shown', spread: '±1 %' },
    { value: recall, interval: '0.60 to 0.64', spread: '±3 %' },
  ]
  const line = (at: number, value: string, recall: string) => ({
    job: `c1-job-${at}`,
    index: at,
    label: `job ${at}`,
    verdict: 'valid',
    cells: cells(value, recall),
    reason: '',
  })
  const lines = [line(1, '900', '0.62'), line(0, '1,200', '0.97')]
  answer({ ...ANSWERS, 'GET /api/v1/campaigns/c1/answer': { ...WRITTEN, columns, lines } })
  show('?sort=-metric.latency_ms')
  const table = within(await screen.findByRole('region', { name: 'Results of the jobs' }))
  expect((await table.findByText('0.62')).parentElement?.textContent).toContain('0.60 to 0.64')
  expect(table.queryByText(/not shown/)).toBeNull()
  expect(table.getAllByRole('row')[1]?.textContent).toContain('1,200')
})

it('begins with the answer, then the jobs with the best first, pictures and each doubt once', async () => {
  answer({ ...ANSWERS, 'GET /api/v1/campaigns/c1': { ...FULL, state: 'done', jobs_ended: 4 } })
  const { container } = show()
  expect(await screen.findByText(/^Fastest: batch=1 threads=1/)).toBeTruthy()
  const ranked = within(screen.getByRole('region', { name: 'Results of the jobs' }))
  expect(ranked.getAllByRole('row')[1]?.textContent).toContain('20.97 to 21.30')
  expect(ranked.getAllByRole('row')[1]?.textContent).toContain('machine busy')
  expect(ranked.getAllByRole('row')[2]?.textContent).toContain('failed')
  expect(screen.getAllByText('21.13')).toHaveLength(1)
  expect(await screen.findByRole('heading', { name: 'latency_ms of all jobs' })).toBeTruthy()
  const doubts = within(screen.getByRole('region', { name: 'Reasons for doubt' }))
  expect(doubts.getByText('machine busy')).toBeTruthy()
  expect(doubts.getByText(/^→ end other programs/)).toBeTruthy()
  expect(doubts.getByText(/2 more reasons/)).toBeTruthy()
  const titles = [...container.querySelectorAll('h2')].map((one) => one.textContent)
  expect(titles.slice(0, 4)).toEqual(['Answer', 'Jobs', 'Pictures', 'Reasons for doubt'])
})

it('shows of each running job what it measures at this moment', async () => {
  const moment = { run: 1, runs: 5, phase: 'measure', share: 0.4, note: '812 requests, 9.8/s, ttft 12 ms, 3 errors' }
  const jobs = JOBS.map((one) => (one.state === 'running' ? { ...one, progress: moment } : one))
  answer({ ...ANSWERS, 'GET /api/v1/campaigns/c1': { ...FULL, job_list: jobs } })
  show()
  const running = await screen.findByRole('list', { name: 'Running now' })
  expect(running.textContent).toContain('run 2 of 5, measure 40 %: 812 requests, 9.8/s, ttft 12 ms, 3 errors')
})
