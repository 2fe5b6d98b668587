import { screen, waitFor } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { expect, test, vi } from 'vitest'
import { agent, hardware } from '@/pages/fleet/examples'
import FleetPage from '@/pages/fleet/FleetPage'
import { answer, showPage } from '@/testing/page'

vi.mock('@/charts/Chart', () => ({
  fetchCharts: () => {},
  Chart: ({ title, says }: { title: string; says: string }) => <figure aria-label={title}>{says}</figure>,
}))

const AGENTS = 'GET /api/v1/agents'
const session = { 'GET /api/v1/session': { name: 'local', role: 'admin', open: true, version: '0.1.0' } }
const show = (address = '/fleet') => showPage(FleetPage, '/fleet', address)
const two = {
  items: [agent(), agent({ id: 'agent-2', name: 'gpu-1', state: 'busy', draining: true, jobs: ['job-9'], labels: {} })],
  next: null,
}

test('shows each agent with its machine, labels, state and job', async () => {
  answer({ [AGENTS]: two })
  show()
  const row = await screen.findByRole('row', { name: /pi-4/ })
  for (const text of ['linux, 4 cores, 8 GiB', 'Cortex-A72', 'rack=quiet', 'active'])
    expect(row.textContent).toContain(text)
  const other = screen.getByRole('row', { name: /gpu-1/ })
  expect(other.textContent).toContain('draining')
  expect(screen.getByRole('link', { name: 'job-9' }).getAttribute('href')).toBe('/jobs/job-9')
})

test('the state in the address narrows the list', async () => {
  answer({ [AGENTS]: two })
  const { router } = show('/fleet?state=draining')
  expect(await screen.findByRole('row', { name: /gpu-1/ })).toBeTruthy()
  expect(screen.queryByRole('row', { name: /pi-4/ })).toBeNull()
  await userEvent.type(screen.getByLabelText('Find'), 'nothing')
  expect(await screen.findByText('No agent fits these choices.')).toBeTruthy()
  expect(router.state.location.search).toMatchObject({ state: 'draining', text: 'nothing' })
})

test('without agents it says how to start one', async () => {
  answer({ [AGENTS]: { items: [], next: null } })
  show()
  expect((await screen.findByText(/assay agent start --server/)).textContent).toContain(window.location.origin)
})

test('a failure is shown', async () => {
  answer({ [AGENTS]: 503 })
  show()
  expect((await screen.findByRole('alert')).textContent).toContain('failed with 503')
})

test('names of machines stay text', async () => {
  const hostile = '<b onmouseover="x()">pi</b>'
  answer({ [AGENTS]: { items: [agent({ name: hostile })], next: null } })
  show()
  expect(await screen.findByText(hostile)).toBeTruthy()
  expect(document.querySelector('td b')).toBeNull()
})

test('an agent is added by its address', async () => {
  const { asked } = answer({
    ...session,
    [AGENTS]: two,
    'POST /api/v1/agents/add': { agent: 'agent-3', action: 'created', heartbeat_s: 10, lease_s: 60 },
  })
  show()
  await userEvent.click(await screen.findByRole('button', { name: 'Add an agent' }))
  await userEvent.type(await screen.findByLabelText('Address of the agent'), 'http://device:8081')
  await userEvent.click(screen.getByRole('button', { name: 'Add' }))
  await waitFor(() => expect(asked.some((one) => one.method === 'POST')).toBe(true))
  const sent = asked.find((one) => one.method === 'POST')
  expect(await sent?.json()).toEqual({ url: 'http://device:8081', token: '', server: '' })
})

test('hardware tests stand beside each other, the best first', async () => {
  answer({
    [AGENTS]: two,
    'GET /api/v1/agents/agent-1/hardware': hardware(),
    'GET /api/v1/agents/agent-2/hardware': hardware(),
  })
  show('/fleet?view=hardware&test=memory_copy')
  expect((await screen.findByRole('figure', { name: 'memory_copy' })).textContent).toContain('5.20 GB/s [5.00, 5.40]')
})
