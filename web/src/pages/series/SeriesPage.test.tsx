import { screen, waitFor, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { expect, test, vi } from 'vitest'
import SeriesPage from '@/pages/series/SeriesPage'
import { answer, showPage } from '@/testing/page'
import { alert, finding, HOSTILE, listed, points, READER, SESSION, series } from '@/watching/examples'

// What a chart draws is tested with its option; here its title and description are enough.
vi.mock('@/charts/Chart', () => ({
  fetchCharts: () => {},
  Chart: ({ title, says, onPick }: { title: string; says: string; onPick: (picked: { data: unknown }) => void }) => (
    <figure aria-label={title}>
      {says}
      <button type="button" onClick={() => onPick({ data: { key: 'point:4' } })}>
        fourth dot
      </button>
    </figure>
  ),
}))

const ID = series().id
const at = (path: string) => `GET /api/v1/series/${ID}${path}`
const usual = {
  'GET /api/v1/session': SESSION,
  [at('')]: { series: series(), findings: [finding()] },
  [at('/points')]: listed(...points()),
  'GET /api/v1/alerts': listed(alert()),
}
const show = (search = '') => showPage(SeriesPage, '/series/$series', `/series/${ID}${search}`)

test('shows the trend, the change with interval and cause, and every result', async () => {
  answer(usual)
  show()
  expect(await screen.findByRole('heading', { level: 1, name: 'ttft_ms.p99 of chat service, rate=4' })).toBeTruthy()
  expect((await screen.findByRole('figure')).textContent).toContain('5 results from 2026-01-01')
  const change = screen.getByRole('article')
  expect(change.textContent).toContain('+10 % [+8.0 %, +12 %]')
  expect(change.textContent).toContain('from 100.0 ms to 110.0 ms (lower is better)')
  expect(change.textContent).toContain('Likely cause: environment. Driver changed from 550 to 560')
  expect(within(change).getByRole('link', { name: 'compare the two' }).getAttribute('href')).toContain('c1-job-3')
  const rows = within(screen.getByRole('region', { name: 'Results of the series' })).getAllByRole('row')
  expect(rows).toHaveLength(7)
  expect(rows[1]?.textContent).toContain('2026-01-06')
  expect(rows[2]?.textContent).toContain('not measured')
})

test('a change is marked as expected after a question', async () => {
  const { asked } = answer({
    ...usual,
    'POST /api/v1/findings/0b7d3e5a91c2f468/expect': finding({ state: 'expected' }),
  })
  show()
  await userEvent.click(await screen.findByRole('button', { name: 'Mark as expected' }))
  const dialog = await screen.findByRole('dialog', { name: 'Was this change meant?' })
  expect(asked.some((one) => one.method === 'POST')).toBe(false)
  await userEvent.click(within(dialog).getByRole('button', { name: 'Mark as expected' }))
  await waitFor(() => expect(asked.some((one) => one.method === 'POST' && one.url.endsWith('/expect'))).toBe(true))
})

test('a dot leads to its result, and the choice is in the address', async () => {
  answer(usual)
  const { router } = show()
  await userEvent.click(await screen.findByRole('button', { name: 'fourth dot' }))
  const picked = (await screen.findByText(/^2026-01-04 .*UTC$/)).closest('.picked')
  expect(router.state.location.search).toMatchObject({ point: 4 })
  expect(picked?.textContent).toContain('110.0 ms [109.0, 111.0]')
  expect(
    within(picked as HTMLElement)
      .getByRole('link', { name: 'c1-job-4' })
      .getAttribute('href'),
  ).toBe('/jobs/c1-job-4')
})

test('the time that is shown is a choice of the address', async () => {
  answer(usual)
  const { router } = show()
  await userEvent.selectOptions(await screen.findByLabelText('Time shown'), '90d')
  await waitFor(() => expect(router.state.location.search).toMatchObject({ range: '90d' }))
})

test('an alert about it can be acknowledged from here', async () => {
  const { asked } = answer({
    ...usual,
    'POST /api/v1/alerts/5f0c1d2e3a4b5c6d/acknowledge': alert({ state: 'acknowledged' }),
  })
  show()
  await userEvent.click(await screen.findByRole('button', { name: 'Acknowledge' }))
  await userEvent.click(within(await screen.findByRole('dialog')).getByRole('button', { name: 'Acknowledge' }))
  await waitFor(() => expect(asked.some((one) => one.url.endsWith('/acknowledge'))).toBe(true))
  expect(asked.some((one) => new URL(one.url).searchParams.get('text') === ID)).toBe(true)
})

test('a reader sees everything and changes nothing', async () => {
  answer({ ...usual, 'GET /api/v1/session': READER })
  show()
  expect(await screen.findByRole('article')).toBeTruthy()
  expect(screen.queryByRole('button', { name: 'Mark as expected' })).toBeNull()
  expect(screen.queryByRole('button', { name: 'Acknowledge' })).toBeNull()
})

test('what is undecided has its own look, and says why', async () => {
  const doubtful = finding({}, { answer: 'cannot tell', because: ['it is new, and chance shows as much'] })
  answer({ ...usual, [at('')]: { series: series(), findings: [doubtful] } })
  show()
  const mark = await screen.findByText('cannot tell')
  expect(mark.className).toContain('square')
  expect(screen.getByRole('article').textContent).toContain('It is new, and chance shows as much.')
})

test('a new change is unconfirmed, with how many results it has of those it needs', async () => {
  const young = finding({}, { answer: 'cannot tell', unconfirmed: { results: 3, needed: 8 } })
  answer({ ...usual, [at('')]: { series: series(), findings: [young] } })
  show()
  expect(await screen.findByText('new, unconfirmed (3 of 8)')).toBeTruthy()
  expect(screen.queryByText('cannot tell')).toBeNull()
})

test('changes that went away are hidden until asked for', async () => {
  answer({ ...usual, [at('')]: { series: series(), findings: [finding({ state: 'gone' })] } })
  show()
  expect(await screen.findByText('No change was found.')).toBeTruthy()
  await userEvent.click(await screen.findByRole('button', { name: /Show 1 change/ }))
  expect(await screen.findByRole('article')).toBeTruthy()
})

test('a series without results says so; one that is not there tells the problem', async () => {
  answer({
    ...usual,
    [at('')]: { series: series({ points: 0, newest: null }), findings: [] },
    [at('/points')]: listed(),
    'GET /api/v1/alerts': listed(),
  })
  show()
  expect(await screen.findByText('This series has no results yet.')).toBeTruthy()
  expect(screen.getByText(/No alert is about this series/)).toBeTruthy()
})

test('a failure is shown in the words of the server', async () => {
  answer({ ...usual, [at('')]: 500 })
  show()
  expect((await screen.findByRole('alert')).textContent).toContain('failed with 500')
})

test('names of users stay text', async () => {
  answer({
    ...usual,
    [at('')]: {
      series: series({ benchmark: HOSTILE }),
      findings: [
        finding({
          triage: {
            cause: 'code',
            because: [HOSTILE],
            differs: [{ name: HOSTILE, before: HOSTILE, after: 1, elsewhere: 0 }],
          },
        }),
      ],
    },
  })
  const { container } = show()
  expect((await screen.findByRole('heading', { level: 1, name: /onerror/ })).textContent).toContain(HOSTILE)
  expect(container.querySelector('img')).toBeNull()
})
