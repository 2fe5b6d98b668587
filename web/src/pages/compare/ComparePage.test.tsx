import { screen, waitFor, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { expect, test, vi } from 'vitest'
import ComparePage from '@/pages/compare/ComparePage'
import { comparison, frontier } from '@/pages/compare/examples'
import { answer, showPage } from '@/testing/page'

// What a chart draws is tested with its option; here its title and description are enough.
vi.mock('@/charts/Chart', () => ({
  fetchCharts: () => {},
  Chart: ({ title, says }: { title: string; says: string }) => <figure aria-label={title}>{says}</figure>,
}))

const CAMPAIGNS = 'GET /api/v1/campaigns'
const COMPARE = 'GET /api/v1/compare'
const BOTH = '/compare?side=campaign%3Aaaa&side=campaign%3Abbb'

const campaign = (id: string, benchmark: string, created_at: string) => ({
  id,
  benchmark,
  state: 'done',
  created_at,
  completed_at: created_at,
  jobs: 2,
  jobs_ended: 2,
  labels: { branch: 'main' },
  counts: { done: 2 },
})

const show = (address: string) => showPage(ComparePage, '/compare', address)

test('says better, worse and cannot tell with numbers, intervals and reasons', async () => {
  const { asked } = answer({ [COMPARE]: comparison() })
  show(BOTH)
  const row = await screen.findByRole('row', { name: /batch=1 latency_ms/ })
  expect(row.textContent).toContain('lower is better')
  expect(within(row).getByText('worse')).toBeTruthy()
  expect(row.textContent).toContain('+10 %')
  expect(row.textContent).toContain('[+8.0 %, +12 %]')
  const why = screen.getByRole('region', { name: 'Why some of it has no verdict' })
  expect(why.textContent).toContain('1 time the change may be none; about 18 more runs')
  const undecided = screen.getByRole('row', { name: /batch=8 latency_ms/ })
  expect(within(undecided).getByText('cannot tell')).toBeTruthy()
  expect(undecided.textContent).toContain('about 18 more runs')
  expect(screen.getByRole('list', { name: 'Answers in numbers' }).textContent).toContain('1 worse')
  const search = new URL(asked[0]?.url ?? '').searchParams
  expect(search.getAll('side')).toEqual(['campaign:aaa', 'campaign:bbb'])
})

test('how far answers among many numbers may be trusted is a note', async () => {
  const promise = '8 numbers were compared: of those called better or worse, at most one in twenty is luck on average'
  answer({ [COMPARE]: comparison({ promise }) })
  show(BOTH)
  expect(await screen.findByText('One note on these results')).toBeTruthy()
  expect(screen.getByText(promise)).toBeTruthy()
})

test('what is not comparable is listed, and can be compared anyway', async () => {
  const { asked } = answer({
    [COMPARE]: comparison({ not_comparable: ['different optimization: all against disable'] }),
  })
  const { router } = show(BOTH)
  expect(await screen.findByRole('heading', { name: /Not like for like/ })).toBeTruthy()
  expect(screen.getByText('different optimization: all against disable')).toBeTruthy()
  await userEvent.click(screen.getByRole('checkbox', { name: /Compare anyway/ }))
  await waitFor(() => expect(asked.some((one) => new URL(one.url).searchParams.get('anyway') === 'true')).toBe(true))
  expect(router.state.location.search).toMatchObject({ anyway: 'yes' })
})

test('what is not like for like is another word than what chance leaves open', async () => {
  const found = comparison()
  const [first, second] = found.rows
  const [base, other] = second?.cells ?? []
  if (!first || !second || !base || !other) throw new Error('the example has two rows')
  answer({
    [COMPARE]: { ...found, rows: [first, { ...second, cells: [base, { ...other, comparable: false }] }] },
  })
  show(BOTH)
  const row = await screen.findByRole('row', { name: /batch=8 latency_ms/ })
  expect(within(row).getByText('not like for like')).toBeTruthy()
  expect(within(row).queryByText('cannot tell')).toBeNull()
  const answers = screen.getByRole('list', { name: 'Answers in numbers' }).textContent
  expect(answers).toContain('latency_ms: B is worse in 1 of 2 jobs by 10 %, not like for like in 1 of 2 jobs.')
  expect(answers).toContain('1 not like for like')
})

test('with nothing chosen it offers the last two campaigns of a benchmark', async () => {
  answer({
    [CAMPAIGNS]: {
      items: [
        campaign('new', 'squeezenet', '2026-02-01T00:00:00Z'),
        campaign('old', 'squeezenet', '2026-01-01T00:00:00Z'),
      ],
      next: null,
    },
    [COMPARE]: comparison(),
  })
  const { router } = show('/compare')
  await userEvent.click(await screen.findByRole('button', { name: 'squeezenet' }))
  await waitFor(() => expect(router.state.location.search).toMatchObject({ side: ['campaign:old', 'campaign:new'] }))
})

test('without campaigns it says what to do', async () => {
  answer({ [CAMPAIGNS]: { items: [], next: null } })
  show('/compare')
  expect(await screen.findByText(/no benchmark yet with two finished campaigns/)).toBeTruthy()
})

test('a failure of the server is shown in its own words', async () => {
  answer({ [COMPARE]: 500 })
  show(BOTH)
  expect((await screen.findByRole('alert')).textContent).toContain('failed with 500')
})

test('names of users stay text', async () => {
  const found = comparison()
  const hostile = '<img src=x onerror="window.broken = true">'
  answer({
    [COMPARE]: {
      ...found,
      rows: found.rows.map((row) => ({ ...row, label: hostile })),
      sides: found.sides.map((side) => ({ ...side, name: hostile })),
    },
  })
  show(BOTH)
  expect((await screen.findAllByText(hostile)).length).toBeGreaterThan(0)
  expect(document.querySelector('img')).toBeNull()
})

test('sides are picked in the dialog and live in the address', async () => {
  answer({
    [CAMPAIGNS]: { items: [campaign('ccc', 'chat', '2026-02-01T00:00:00Z')], next: null },
    [COMPARE]: comparison(),
  })
  const { router } = show('/compare?side=campaign%3Aaaa')
  await userEvent.click((await screen.findAllByRole('button', { name: 'Choose sides' }))[0] as HTMLElement)
  await userEvent.click(await screen.findByRole('checkbox', { name: /chat/ }))
  expect(router.state.location.search).toMatchObject({ side: ['campaign:aaa', 'campaign:ccc'] })
})

test('another side becomes the base', async () => {
  answer({ [COMPARE]: comparison() })
  const { router } = show(BOTH)
  await userEvent.click(await screen.findByRole('button', { name: /Make it the base.*campaign:bbb/ }))
  expect(router.state.location.search).toMatchObject({ side: ['campaign:bbb', 'campaign:aaa'] })
})

test('rows can be narrowed to an answer', async () => {
  answer({ [COMPARE]: comparison() })
  const { router } = show(BOTH)
  await userEvent.selectOptions(await screen.findByLabelText('Answer'), 'worse')
  expect(router.state.location.search).toMatchObject({ answer: 'worse' })
  expect(screen.queryByRole('row', { name: /batch=8 latency_ms/ })).toBeNull()
  expect(screen.getByRole('row', { name: /batch=1 latency_ms/ })).toBeTruthy()
})

test('the trade-off asks for two metrics and per watt, and says what is not drawn', async () => {
  const { asked } = answer({ [COMPARE]: comparison(), 'GET /api/v1/frontier': frontier() })
  show(`${BOTH}&view=front`)
  expect((await screen.findByRole('figure', { name: 'throughput_per_s against latency_ms' })).textContent).toBe(
    '2 results, 1 on the front, 1 of them proven',
  )
  expect(screen.getByText(/power was not read/)).toBeTruthy()
  await userEvent.selectOptions(screen.getByLabelText('Y axis shows'), 'per watt')
  await waitFor(() => expect(asked.map((one) => new URL(one.url).searchParams.get('per'))).toContain('watt'))
})
