import { screen, waitFor, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { expect, it } from 'vitest'
import BenchmarkPage from '@/pages/benchmarks/BenchmarkPage'
import { campaign, READER, SESSION } from '@/pages/campaigns/answers'
import { answer, showPage } from '@/testing/page'

const STORED = {
  name: 'chat',
  version: 2,
  document: { benchmark: 'chat', description: '<b>loud</b>' },
  files: {},
  digest: 'abcdef0123456789',
  created_at: 1_794_000_000,
  created_by: 'ada',
  newest: 2,
}
const PREVIEW = {
  benchmark: 'chat',
  digest: 'd',
  jobs: 4,
  job_list: [],
  placement: {
    placeable: true,
    says: 'every job has an agent that can take it',
    groups: [{ needs: '', key: 'k', jobs: 4, waiting: 4, agents: ['rack-7'], missing: {}, machines: 1 }],
  },
  files_missing: [],
}
const ANSWERS = {
  'GET /api/v1/session': SESSION,
  'GET /api/v1/benchmarks/chat': STORED,
  'GET /api/v1/benchmarks/chat/versions': { items: [STORED, { ...STORED, version: 1, created_by: 'bob' }], next: null },
  'GET /api/v1/benchmarks/headlines': { items: [], next: null },
  'GET /api/v1/schedules': { items: [], next: null },
  'GET /api/v1/campaigns': { items: [campaign({ id: 'c9' })], next: null },
  'POST /api/v1/benchmarks/check': PREVIEW,
}
const show = (search = '') => showPage(BenchmarkPage, '/benchmarks/$benchmark', `/benchmarks/chat${search}`)
const posted = async (asked: Request[], path: string): Promise<unknown> => {
  const request = await waitFor(() => {
    const found = asked.find((one) => one.method === 'POST' && new URL(one.url).pathname === path)
    if (!found) throw new Error(`nothing was sent to ${path}`)
    return found
  })
  return request.json()
}

it('shows the file as text, its versions, its campaigns, and that it is not scheduled', async () => {
  answer(ANSWERS)
  const { container } = show()
  const file = within(await screen.findByRole('region', { name: 'File, version 2' }))
  expect(file.getByText(/description: <b>loud<\/b>/)).toBeTruthy()
  expect(container.querySelector('pre b')).toBeNull()
  expect((await screen.findByRole('link', { name: 'c9' })).getAttribute('href')).toBe('/campaigns/c9')
  expect((await screen.findByRole('link', { name: '1' })).getAttribute('href')).toBe('/benchmarks/chat?version=1')
  expect(await screen.findByText('It runs only on request.')).toBeTruthy()
  expect(screen.getByText(/Nothing has been measured yet/)).toBeTruthy()
})

it('asks for the version in the address', async () => {
  const { asked } = answer(ANSWERS)
  show('?version=1')
  await screen.findByRole('region', { name: 'File, version 2' })
  expect(asked.some((one) => one.url.endsWith('/benchmarks/chat?version=1'))).toBe(true)
})

it('says what a run would do, then submits it', async () => {
  const { asked } = answer({
    ...ANSWERS,
    'POST /api/v1/campaigns': { id: 'c10', benchmark: 'chat', state: 'running', jobs: 4, placement: PREVIEW.placement },
  })
  show()
  await userEvent.click(await screen.findByRole('button', { name: 'Run now' }))
  const dialog = within(screen.getByRole('dialog'))
  expect(await dialog.findByText(/every job has an agent/)).toBeTruthy()
  await userEvent.selectOptions(dialog.getByLabelText('Agent'), 'rack-7')
  await userEvent.type(dialog.getByLabelText('Labels'), 'team=')
  expect(dialog.getByRole('button', { name: 'Run' })).toHaveProperty('disabled', true)
  await userEvent.type(dialog.getByLabelText('Labels'), 'vision')
  await userEvent.click(dialog.getByRole('button', { name: 'Run' }))
  expect(await posted(asked, '/api/v1/campaigns')).toEqual({
    benchmark: 'chat',
    version: 2,
    agent: 'rack-7',
    labels: { team: 'vision' },
  })
  expect(await screen.findByText('Submitted as c10: 4 jobs')).toBeTruthy()
})

it('makes a schedule of it', async () => {
  const { asked } = answer({
    ...ANSWERS,
    'POST /api/v1/schedules': {
      id: 's1',
      name: 'chat',
      state: 'active',
      schedule: {},
      next: [],
      last: null,
      created_at: 1,
      changed_at: 1,
      submitted_by: 'ada',
    },
  })
  show()
  await userEvent.click(await screen.findByRole('button', { name: 'Schedule' }))
  await userEvent.click(within(screen.getByRole('dialog')).getByRole('button', { name: 'Schedule' }))
  expect(await posted(asked, '/api/v1/schedules')).toMatchObject({
    document: { benchmark: 'chat', schedule: { cron: '0 3 * * *' } },
  })
})

it('shows campaigns of a benchmark whose file is not stored', async () => {
  answer({ ...ANSWERS, 'GET /api/v1/benchmarks/chat': 404 })
  show()
  expect(await screen.findByText('The file of this benchmark is not stored here.')).toBeTruthy()
  expect(await screen.findByRole('link', { name: 'c9' })).toBeTruthy()
  expect(screen.queryByRole('button', { name: 'Run now' })).toBeNull()
})

it('gives a reader nothing to change', async () => {
  answer({ ...ANSWERS, 'GET /api/v1/session': READER })
  show()
  await screen.findByRole('region', { name: 'File, version 2' })
  expect(screen.queryByRole('button', { name: /Run now|Schedule|Remove/ })).toBeNull()
})

it('says why the file cannot be read', async () => {
  answer({ ...ANSWERS, 'GET /api/v1/benchmarks/chat': 500 })
  show()
  expect((await screen.findByRole('alert')).textContent).toContain('failed with 500')
})

it('says when it runs by itself, and not when another of a like name does', async () => {
  const schedule = (id: string, name: string) => ({
    id,
    name,
    state: 'active',
    schedule: { cron: '0 3 * * *', timezone: 'UTC' },
    next: [],
    last: null,
    created_at: 1,
    changed_at: 1,
    submitted_by: 'ada',
  })
  answer({
    ...ANSWERS,
    'GET /api/v1/schedules': { items: [schedule('s8', 'chat at night'), schedule('s9', 'chat')], next: null },
  })
  show()
  expect((await screen.findByRole('link', { name: '0 3 * * *' })).getAttribute('href')).toBe('/schedules/s9')
})
