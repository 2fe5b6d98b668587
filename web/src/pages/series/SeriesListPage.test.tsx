import { screen, waitFor, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { expect, test } from 'vitest'
import SeriesListPage from '@/pages/series/SeriesListPage'
import { answer, showPage } from '@/testing/page'
import { finding, HOSTILE, listed, SESSION, series } from '@/watching/examples'

const SERIES = 'GET /api/v1/series'
const FINDINGS = 'GET /api/v1/findings'
const SIGNED = { 'GET /api/v1/session': SESSION }
const show = (search = '') => showPage(SeriesListPage, '/series', `/series${search}`)
const question = (asked: readonly Request[], path: string) =>
  new URL(asked.findLast((one) => new URL(one.url).pathname === path)?.url ?? 'http://none').searchParams

test('lists series with how they look', async () => {
  answer({ ...SIGNED, [SERIES]: listed(series()) })
  show()
  const row = await screen.findByRole('row', { name: /ttft_ms.p99 of chat service/ })
  expect(within(row).getByRole('link').getAttribute('href')).toBe('/series/9c1f2ab34d5e6f70')
  for (const text of ['rate=4', '2 × H100', '1 change', '±2.1 %']) expect(row.textContent).toContain(text)
})

test('what is looked for goes into the address and to the server, once the typing rests', async () => {
  const { asked } = answer({ ...SIGNED, [SERIES]: listed(series()) })
  const { router } = show('?benchmark=chat+service')
  await userEvent.type(await screen.findByLabelText('Find'), 'rate')
  await waitFor(() => expect(router.state.location.search).toMatchObject({ text: 'rate', benchmark: 'chat service' }))
  await waitFor(() => expect(question(asked, '/api/v1/series').get('text')).toBe('rate'))
  expect(question(asked, '/api/v1/series').get('benchmark')).toBe('chat service')
  expect(asked.filter((one) => new URL(one.url).searchParams.get('text') === 'ra')).toHaveLength(0)
  await userEvent.click(await screen.findByRole('button', { name: /benchmark: chat service/ }))
  await waitFor(() => expect(question(asked, '/api/v1/series').get('benchmark')).toBe(''))
})

test('the next page is asked for with the cursor of the one before', async () => {
  const second = series({ id: 'ffff', metric: 'itl_ms' })
  const page = (request: Request) =>
    new URL(request.url).searchParams.get('cursor') === 'two' ? listed(second) : { items: [series()], next: 'two' }
  answer({ ...SIGNED, [SERIES]: page })
  show()
  await userEvent.click(await screen.findByRole('button', { name: 'Show more' }))
  expect(await screen.findByRole('row', { name: /itl_ms/ })).toBeTruthy()
  expect(screen.queryByRole('button', { name: 'Show more' })).toBeNull()
})

test('says what to do where there is nothing, and that the filters leave nothing', async () => {
  answer({ ...SIGNED, [SERIES]: listed() })
  const { unmount } = show()
  expect(await screen.findByText('There are no series yet.')).toBeTruthy()
  unmount()
  show('?text=nothing')
  expect(await screen.findByText('No series match these filters.')).toBeTruthy()
})

test('what changed is a tab with the open changes first', async () => {
  const { asked } = answer({ ...SIGNED, [FINDINGS]: listed(finding()), [SERIES]: listed() })
  const { router } = show('?tab=changes')
  const row = await screen.findByRole('row', { name: /worse/ })
  expect(row.textContent).toContain('+10 %[+8.0 %, +12 %]')
  expect(row.textContent).toContain('environment')
  expect(question(asked, '/api/v1/findings').get('state')).toBe('open')
  await userEvent.selectOptions(screen.getByLabelText('State'), 'all')
  await waitFor(() => expect(question(asked, '/api/v1/findings').get('state')).toBe(''))
  expect(router.state.location.search).toMatchObject({ tab: 'changes', state: 'all' })
})

test('no open change is good news; a failure is shown; markup stays text', async () => {
  answer({ ...SIGNED, [FINDINGS]: listed(), [SERIES]: 500 })
  const { unmount } = show('?tab=changes')
  expect(await screen.findByText(/everything is as it was/)).toBeTruthy()
  unmount()
  const failed = show()
  expect((await screen.findByRole('alert')).textContent).toContain('failed with 500')
  failed.unmount()
  answer({ ...SIGNED, [SERIES]: listed(series({ benchmark: HOSTILE })) })
  const { container } = show()
  expect(await screen.findByText(HOSTILE, { exact: false })).toBeTruthy()
  expect(container.querySelector('img')).toBeNull()
})
