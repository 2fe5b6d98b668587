import { screen, waitFor } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { expect, test, vi } from 'vitest'
import AgentPage from '@/pages/fleet/AgentPage'
import { agent, hardware } from '@/pages/fleet/examples'
import { answer, showPage } from '@/testing/page'

vi.mock('@/charts/Chart', () => ({
  fetchCharts: () => {},
  Chart: ({ title, says }: { title: string; says: string }) => <figure aria-label={title}>{says}</figure>,
}))

const ONE = '/api/v1/agents/agent-1'
const none = { items: [], next: null }
const given = (role = 'admin', changes = {}) => ({
  'GET /api/v1/session': { name: 'local', role, open: true, version: '0.1.0' },
  [`GET ${ONE}`]: agent(changes),
  [`GET ${ONE}/hardware`]: hardware(),
  'GET /api/v1/jobs': none,
  [`PATCH ${ONE}`]: agent(changes),
})
const show = () => showPage(AgentPage, '/fleet/$agent', '/fleet/agent-1')

async function sent(asked: Request[], method: string): Promise<unknown> {
  await waitFor(() => expect(asked.some((one) => one.method === method)).toBe(true))
  return asked.find((one) => one.method === method)?.json()
}

test('tells what the machine is, whether it is fit, how noisy it is, and what its hardware can do', async () => {
  answer(given())
  show()
  expect(await screen.findByRole('heading', { level: 1, name: 'pi-4' })).toBeTruthy()
  expect(await screen.findByText('the clock fell by 12 %')).toBeTruthy()
  expect(screen.getByText('cannot tell')).toBeTruthy()
  expect(screen.getByText('Runs differ by 1.2 % in the middle.')).toBeTruthy()
  expect(screen.getByRole('figure', { name: 'Bandwidth of cpu' }).textContent).toContain('5.20 GB/s [5.00, 5.40]')
  expect(screen.getByRole('figure', { name: /Arithmetic by precision/ }).textContent).toContain('matmul fp32')
  expect(screen.getAllByText('Cortex-A72').length).toBeGreaterThan(0)
})

test('what is not known says why', async () => {
  answer({
    ...given(),
    [`GET ${ONE}/hardware`]: {
      fitness: null,
      noise: null,
      bench: [],
      absent: { fitness: 'it has delivered no result yet' },
    },
  })
  show()
  expect(await screen.findByText(/it has delivered no result yet/)).toBeTruthy()
})

test('drains an agent', async () => {
  const { asked } = answer(given())
  show()
  await userEvent.click(await screen.findByRole('button', { name: 'Drain' }))
  expect(await sent(asked, 'PATCH')).toEqual({ draining: true })
})

test('one that drains can take jobs again', async () => {
  const { asked } = answer(given('user', { draining: true }))
  show()
  await userEvent.click(await screen.findByRole('button', { name: 'Let it take jobs again' }))
  expect(await sent(asked, 'PATCH')).toEqual({ draining: false })
})

test('labels are added and removed', async () => {
  const { asked } = answer(given())
  show()
  await userEvent.type(await screen.findByLabelText('New label'), 'room = a=b')
  await userEvent.click(screen.getByRole('button', { name: 'Add' }))
  expect(await sent(asked, 'PATCH')).toEqual({ labels: { room: 'a=b' } })
  await userEvent.click(screen.getByRole('button', { name: 'Remove the label rack=quiet' }))
  await waitFor(() => expect(asked.filter((one) => one.method === 'PATCH')).toHaveLength(2))
  expect(await asked.findLast((one) => one.method === 'PATCH')?.json()).toEqual({ labels: { rack: null } })
  expect(screen.queryByRole('button', { name: 'Remove the label arch=aarch64' })).toBeNull()
})

test('a reader sees no buttons that the server would refuse', async () => {
  answer(given('reader'))
  show()
  await screen.findAllByText('Cortex-A72')
  expect(screen.queryByRole('button', { name: 'Drain' })).toBeNull()
  expect(screen.queryByRole('button', { name: 'Remove' })).toBeNull()
})

test('removing asks first', async () => {
  const { asked } = answer({ ...given(), [`DELETE ${ONE}`]: {} })
  show()
  await userEvent.click(await screen.findByRole('button', { name: 'Remove' }))
  expect(asked.some((one) => one.method === 'DELETE')).toBe(false)
  await userEvent.click(await screen.findByRole('button', { name: 'Remove it' }))
  await waitFor(() => expect(asked.some((one) => one.method === 'DELETE')).toBe(true))
})

test('an agent that does not exist is reported', async () => {
  answer({ ...given(), [`GET ${ONE}`]: 404 })
  show()
  expect((await screen.findByRole('alert')).textContent).toContain('failed with 404')
})

test('the queue names campaigns whose jobs it can take, and no others', async () => {
  const waiting = { id: 'job-5', campaign: 'ccc', benchmark: 'chat', state: 'pending' }
  answer({
    ...given(),
    'GET /api/v1/jobs': (request: Request) =>
      request.url.includes('state=pending')
        ? { items: [waiting, { ...waiting, id: 'job-6', campaign: 'ddd' }], next: null }
        : none,
    'GET /api/v1/campaigns/ccc/placement': {
      placeable: true,
      says: '',
      groups: [
        { needs: 'onnxruntime, cpu', key: 'k', jobs: 3, waiting: 2, agents: ['pi-4'], missing: {}, machines: 1 },
      ],
    },
    'GET /api/v1/campaigns/ddd/placement': {
      placeable: false,
      says: '',
      groups: [
        { needs: 'cuda', key: 'k', jobs: 1, waiting: 1, agents: [], missing: { 'pi-4': ['cuda'] }, machines: 1 },
      ],
    },
  })
  show()
  expect((await screen.findByRole('link', { name: 'ccc' })).closest('li')?.textContent).toContain(
    '2 waiting (onnxruntime, cpu)',
  )
  expect(screen.queryByRole('link', { name: 'ddd' })).toBeNull()
})
