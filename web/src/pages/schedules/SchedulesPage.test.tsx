import { fireEvent, screen, waitFor, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { expect, test } from 'vitest'
import SchedulePage from '@/pages/schedules/SchedulePage'
import SchedulesPage from '@/pages/schedules/SchedulesPage'
import { answer, showPage } from '@/testing/page'
import { HOSTILE, listed, READER, SESSION, START, sent } from '@/watching/examples'

const SIGNED = { 'GET /api/v1/session': SESSION }
const LIST = 'GET /api/v1/schedules'
const firing = {
  id: 17,
  due: START,
  local: '2026-01-01T03:00:00+01:00',
  outcome: 'submitted',
  fired_at: START + 90,
  campaign: 'c4f7',
  campaign_state: 'done',
  reason: '',
  server: 'lab-1:1',
}
const schedule = {
  id: 's1f09',
  name: 'nightly squeezenet',
  state: 'active',
  schedule: { cron: '0 3 * * mon-fri', timezone: 'Europe/Luxembourg', jitter: 600, missed: 'once', overlap: 'skip' },
  next: [{ due: START + 86_400, local: '2026-01-02T03:00:00+01:00', starts: START + 86_500 }],
  last: firing,
  created_at: START,
  changed_at: START,
  submitted_by: 'ci',
}
const stored = {
  name: 'nightly squeezenet',
  version: 2,
  document: { benchmark: 'nightly squeezenet', target: { model: 'squeezenet' } },
  files: { 'a.onnx': [] },
  digest: 'd',
  created_at: START,
  created_by: 'ada',
  newest: 2,
}
const showList = (search = '') => showPage(SchedulesPage, '/schedules', `/schedules${search}`)
const showOne = () => showPage(SchedulePage, '/schedules/$schedule', '/schedules/s1f09')

test('lists schedules in words, with their last and next time', async () => {
  answer({ ...SIGNED, [LIST]: listed(schedule) })
  showList()
  const row = await screen.findByRole('row', { name: /nightly squeezenet/ })
  for (const text of ['Monday to Friday at 03:00', 'Europe/Luxembourg', 'submitted', 'active'])
    expect(row.textContent).toContain(text)
  expect(within(row).getByRole('link', { name: 'done' }).getAttribute('href')).toBe('/campaigns/c4f7')
})

test('a schedule is run, paused and resumed from its row', async () => {
  const { asked } = answer({
    ...SIGNED,
    [LIST]: listed(schedule),
    'POST /api/v1/schedules/s1f09/run': firing,
    'POST /api/v1/schedules/s1f09/pause': { ...schedule, state: 'paused' },
  })
  showList()
  await userEvent.click(await screen.findByRole('button', { name: 'Run now' }))
  expect((await screen.findAllByText(/runs now: campaign c4f7/)).length).toBeGreaterThan(0)
  await userEvent.click(await screen.findByRole('button', { name: 'Pause' }))
  await waitFor(() => expect(asked.some((one) => one.url.endsWith('/pause'))).toBe(true))
})

test('one that was left out says why', async () => {
  answer({
    ...SIGNED,
    [LIST]: listed(schedule),
    'POST /api/v1/schedules/s1f09/run': {
      ...firing,
      campaign: null,
      outcome: 'skipped',
      reason: 'campaign c1 still runs',
    },
  })
  showList()
  await userEvent.click(await screen.findByRole('button', { name: 'Run now' }))
  expect((await screen.findAllByText(/skipped: campaign c1 still runs/)).length).toBeGreaterThan(0)
})

test('a stored benchmark is put on a schedule as it is, with the times of the form', async () => {
  const { asked } = answer({
    ...SIGNED,
    [LIST]: listed(),
    'GET /api/v1/benchmarks': listed({ name: stored.name, version: 2, created_at: START, changed_at: START }),
    'GET /api/v1/benchmarks/nightly%20squeezenet': stored,
    'POST /api/v1/schedules': schedule,
  })
  const { router } = showList('?add=yes')
  const dialog = within(await screen.findByRole('dialog', { name: 'Add a schedule' }))
  await userEvent.selectOptions(await dialog.findByLabelText('Benchmark'), stored.name)
  await waitFor(() => expect(router.state.location.search).toMatchObject({ benchmark: stored.name }))
  await userEvent.selectOptions(await dialog.findByLabelText('Run it'), 'something else')
  fireEvent.change(dialog.getByLabelText('Times'), { target: { value: '30 6 * * mon' } })
  fireEvent.change(dialog.getByLabelText('Time zone'), { target: { value: 'Europe/Luxembourg' } })
  await userEvent.click(dialog.getByRole('button', { name: 'Put it on the schedule' }))
  await waitFor(async () =>
    expect(await sent(asked, 'POST', '/api/v1/schedules')).toMatchObject({
      document: {
        ...stored.document,
        schedule: { cron: '30 6 * * mon', timezone: 'Europe/Luxembourg', missed: 'once', overlap: 'skip' },
      },
      files: stored.files,
    }),
  )
  await waitFor(() => expect(router.state.location.pathname).toBe('/schedules/s1f09'))
})

test('nothing on a schedule says what to do; a failure is shown; a reader has no buttons; markup stays text', async () => {
  answer({ ...SIGNED, [LIST]: listed() })
  const empty = showList()
  expect(await screen.findByText('Nothing runs by itself yet.')).toBeTruthy()
  empty.unmount()
  answer({ ...SIGNED, [LIST]: 500 })
  const failed = showList()
  expect((await screen.findByRole('alert')).textContent).toContain('failed with 500')
  failed.unmount()
  answer({ 'GET /api/v1/session': READER, [LIST]: listed({ ...schedule, name: HOSTILE }) })
  const { container } = showList()
  expect(await screen.findByRole('link', { name: HOSTILE })).toBeTruthy()
  expect(container.querySelector('img')).toBeNull()
  expect(screen.queryByRole('button', { name: /Run now|Add a schedule/ })).toBeNull()
})

const one = {
  ...SIGNED,
  'GET /api/v1/schedules/s1f09': { summary: schedule, submission: { document: stored.document } },
}

test('one schedule shows its next times, the outcome of the others, and what it submits', async () => {
  const skipped = {
    ...firing,
    id: 18,
    outcome: 'skipped',
    campaign: null,
    campaign_state: null,
    fired_at: null,
    reason: 'campaign c4f7 still runs; overlap is skip',
  }
  answer({ ...one, 'GET /api/v1/schedules/s1f09/firings': listed(skipped, firing) })
  showOne()
  expect(await screen.findByText('Fri 2026-01-02 03:00 +01:00')).toBeTruthy()
  expect((await screen.findByRole('row', { name: /skipped/ })).textContent).toContain('still runs; overlap is skip')
  const done = screen.getByRole('row', { name: /submitted/ })
  expect(done.textContent).toContain('1 min 30 s later')
  expect(within(done).getByRole('link', { name: 'c4f7' })).toBeTruthy()
  expect(screen.getByText(/model: squeezenet/)).toBeTruthy()
  expect(screen.getByText('up to 10 min 0 s later')).toBeTruthy()
})

test('it is removed after a question, and the list is shown', async () => {
  const { asked } = answer({
    ...one,
    'GET /api/v1/schedules/s1f09/firings': listed(),
    'DELETE /api/v1/schedules/s1f09': {},
  })
  const { router } = showOne()
  expect(await screen.findByText('It has not been due yet.')).toBeTruthy()
  await userEvent.click(await screen.findByRole('button', { name: 'Remove' }))
  await userEvent.click(within(await screen.findByRole('dialog')).getByRole('button', { name: 'Remove' }))
  await waitFor(() => expect(asked.some((request) => request.method === 'DELETE')).toBe(true))
  await waitFor(() => expect(router.state.location.pathname).toBe('/schedules'))
})

test('a paused schedule has no next time, and resumes on request', async () => {
  const { asked } = answer({
    ...one,
    'GET /api/v1/schedules/s1f09': { summary: { ...schedule, state: 'paused', next: [] }, submission: {} },
    'GET /api/v1/schedules/s1f09/firings': listed(),
    'POST /api/v1/schedules/s1f09/resume': schedule,
  })
  showOne()
  expect(await screen.findByText('It is paused.')).toBeTruthy()
  await userEvent.click(await screen.findByRole('button', { name: 'Resume' }))
  await waitFor(() => expect(asked.some((request) => request.url.endsWith('/resume'))).toBe(true))
})
