import { screen, waitFor } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { expect, it } from 'vitest'
import { campaign, SESSION } from '@/pages/campaigns/answers'
import CampaignsPage from '@/pages/campaigns/CampaignsPage'
import { answer, showPage } from '@/testing/page'

const ROWS = [
  campaign({ benchmark: '<script>alert(1)</script>' }),
  campaign({ id: 'c2', state: 'partial', counts: { done: 3, failed: 1 } }),
]
const list = (items: unknown[], next: string | null = null) => ({
  'GET /api/v1/session': SESSION,
  'GET /api/v1/campaigns': { items, next },
})
const show = (search = '') => showPage(CampaignsPage, '/campaigns', `/campaigns${search}`)

it('lists campaigns with how their jobs ended; names stay text', async () => {
  answer(list(ROWS))
  const { container } = show()
  expect(await screen.findByRole('link', { name: '<script>alert(1)</script>' })).toHaveProperty(
    'pathname',
    '/campaigns/c1',
  )
  expect(screen.getByText('3 done, 1 failed')).toBeTruthy()
  expect(container.querySelector('script')).toBeNull()
})

it('asks the server for what the address says', async () => {
  const { asked } = answer(list(ROWS))
  show('?state=partial&text=vision&benchmark=chat')
  await screen.findByText('3 done, 1 failed')
  const query = new URL(asked.find((one) => one.url.includes('/campaigns'))?.url ?? '').searchParams
  expect(Object.fromEntries(query)).toMatchObject({ state: 'partial', text: 'vision', benchmark: 'chat' })
  expect((screen.getByLabelText('Search') as HTMLInputElement).value).toBe('vision')
})

it('keeps the chosen state in the address', async () => {
  answer(list(ROWS))
  const { router } = show()
  await userEvent.selectOptions(await screen.findByLabelText('State'), 'failed')
  await waitFor(() => expect(router.state.location.search).toEqual({ state: 'failed' }))
})

it('compares what was picked', async () => {
  answer(list(ROWS))
  show()
  await userEvent.click(await screen.findByRole('checkbox', { name: /c1/ }))
  expect(await screen.findByText('Pick one more to compare.')).toBeTruthy()
  await userEvent.click(screen.getByRole('checkbox', { name: /c2/ }))
  const link = await screen.findByRole('link', { name: 'Compare 2 campaigns' })
  expect(decodeURIComponent(link.getAttribute('href') ?? '')).toBe('/compare?side=["campaign:c1","campaign:c2"]')
})

it('compares with the oldest, in whatever order they were picked', async () => {
  const rows = ['2026-11-16', '2026-11-15', '2026-11-14'].map((day, at) =>
    campaign({ id: `c${at}`, created_at: `${day}T03:30:00+00:00` }),
  )
  answer({
    ...list([]),
    'GET /api/v1/campaigns': (request: Request) => ({
      items: rows.filter((one) => !request.url.includes('text=c2') || one.id === 'c2'),
      next: null,
    }),
  })
  show()
  await userEvent.click(await screen.findByRole('checkbox', { name: /c0/ }))
  await userEvent.click(screen.getByRole('checkbox', { name: /c1/ }))
  const sides = async (name: string) =>
    decodeURIComponent((await screen.findByRole('link', { name })).getAttribute('href') ?? '')
  expect(await sides('Compare 2 campaigns')).toBe('/compare?side=["campaign:c1","campaign:c0"]')
  // Those that the search hides keep their place in time.
  await userEvent.type(screen.getByLabelText('Search'), 'c2')
  await waitFor(() => expect(screen.queryByRole('checkbox', { name: /c0/ })).toBeNull())
  await userEvent.click(await screen.findByRole('checkbox', { name: /c2/ }))
  expect(await sides('Compare 3 campaigns')).toBe('/compare?side=["campaign:c2","campaign:c1","campaign:c0"]')
})

it('draws as ended only what has ended', async () => {
  answer(list([campaign({ state: 'running', jobs: 4, jobs_ended: 1, counts: { done: 1, running: 2, pending: 1 } })]))
  show()
  const bar = await screen.findByRole('img', { name: '1 of 4 jobs ended: 1 done, 2 running, 1 pending' })
  const filled = [...bar.children].map((part) => Number.parseFloat((part as HTMLElement).style.width))
  expect(filled).toEqual([25])
})

it('reads older ones on demand', async () => {
  const page = (request: Request) =>
    request.url.includes('cursor=next-page')
      ? { items: [campaign({ id: 'c0', benchmark: 'an older one' })], next: null }
      : { items: ROWS, next: 'next-page' }
  answer({ 'GET /api/v1/session': SESSION, 'GET /api/v1/campaigns': page })
  show()
  await userEvent.click(await screen.findByRole('button', { name: 'Show more' }))
  expect(await screen.findByRole('link', { name: 'an older one' })).toBeTruthy()
  expect(screen.queryByRole('button', { name: 'Show more' })).toBeNull()
})

it('says that there is none, and tells that from none like that', async () => {
  answer(list([]))
  const { unmount } = show()
  expect(await screen.findByText('Nothing has been submitted yet.')).toBeTruthy()
  unmount()
  show('?state=failed')
  expect(await screen.findByText('No campaigns match these filters.')).toBeTruthy()
})

it('says why there is no list', async () => {
  answer({ 'GET /api/v1/session': SESSION, 'GET /api/v1/campaigns': 503 })
  show()
  expect((await screen.findByRole('alert')).textContent).toContain('failed with 503')
})
