import { screen, waitFor } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { expect, test } from 'vitest'
import SettingsPage from '@/pages/settings/SettingsPage'
import { answer, showPage } from '@/testing/page'

const token = {
  id: 't1',
  name: 'ci <b>bold</b>',
  role: 'user',
  created_at: 1_700_000_000,
  expires_at: null,
  last_used: null,
}
const given = (role = 'admin') => ({
  'GET /api/v1/session': { name: 'ada', role, open: false, version: '0.1.0' },
  'GET /api/v1/tokens': { items: [token], next: null },
})
const show = (tab = '') => showPage(SettingsPage, '/settings', `/settings${tab && `?tab=${tab}`}`)

async function sent(asked: Request[], method: string): Promise<Request> {
  return waitFor(() => {
    const found = asked.find((one) => one.method === method)
    if (found === undefined) throw new Error(`nothing was sent with ${method}`)
    return found
  })
}

test('lists tokens, and their names stay text', async () => {
  answer(given())
  show()
  const row = await screen.findByRole('row', { name: /ci <b>bold/ })
  expect(row.textContent).toContain('never')
  expect(document.querySelector('td b')).toBeNull()
})

test('makes a token and shows its secret once', async () => {
  const { asked } = answer({
    ...given(),
    'POST /api/v1/tokens': { token: { ...token, name: 'pi' }, secret: 'assay_secret' },
  })
  show()
  await userEvent.type(await screen.findByLabelText('Name'), ' pi ')
  await userEvent.selectOptions(screen.getByLabelText('Role'), 'agent')
  await userEvent.selectOptions(screen.getByLabelText('Ends'), 'in a day')
  await userEvent.click(screen.getByRole('button', { name: 'Make a token' }))
  expect(await (await sent(asked, 'POST')).json()).toEqual({ name: 'pi', role: 'agent', expires_in_s: 86400 })
  expect(await screen.findByDisplayValue('assay_secret')).toBeTruthy()
  await userEvent.click(screen.getByRole('button', { name: 'I have saved it' }))
  expect(screen.queryByDisplayValue('assay_secret')).toBeNull()
})

test('revoking asks first', async () => {
  const { asked } = answer({ ...given(), 'DELETE /api/v1/tokens/t1': {} })
  show()
  await userEvent.click(await screen.findByRole('button', { name: /^Revoke/ }))
  await userEvent.click(await screen.findByRole('button', { name: 'Revoke it' }))
  expect(new URL((await sent(asked, 'DELETE')).url).pathname).toBe('/api/v1/tokens/t1')
})

test('a user who is not an admin sees why, and the tokens are not requested', async () => {
  const { asked } = answer(given('reader'))
  show()
  expect(await screen.findByText(/Only an admin sees the tokens/)).toBeTruthy()
  expect(asked.some((one) => one.url.includes('/tokens'))).toBe(false)
})

const channel = {
  name: 'team',
  kind: 'slack',
  to: 'hooks.example.org',
  state: 'failing',
  last_sent: null,
  failing: 'HTTP 404',
  waiting: 2,
}

test('a channel is tested, and its answer is shown', async () => {
  const { asked } = answer({
    ...given(),
    'GET /api/v1/channels': { items: [channel], next: null },
    'POST /api/v1/channels/team/test': { sent: false, says: 'it answered 404' },
  })
  show('notifiers')
  expect(await screen.findByText('HTTP 404')).toBeTruthy()
  await userEvent.click(await screen.findByRole('button', { name: /Send a test/ }))
  await sent(asked, 'POST')
  expect(await screen.findByText('it answered 404')).toBeTruthy()
  expect(screen.getByText('not sent')).toBeTruthy()
})

test('without channels it says so; a failure is shown', async () => {
  answer({ ...given(), 'GET /api/v1/channels': { items: [], next: null } })
  const first = show('notifiers')
  expect(await screen.findByText('This server has no channels yet.')).toBeTruthy()
  first.unmount()
  answer({ ...given(), 'GET /api/v1/channels': 500 })
  show('notifiers')
  expect((await screen.findByRole('alert')).textContent).toContain('failed with 500')
})

const price = {
  machine: 'gpu-*',
  per_hour: 2.5,
  currency: 'EUR',
  date: '2026-01-02',
  by: 'ada',
  changed_at: 1_700_000_000,
}

test('a price is kept under its machine, and removed', async () => {
  const { asked } = answer({
    ...given('user'),
    'GET /api/v1/prices': { items: [price], next: null },
    'PUT /api/v1/prices/pi-4': price,
    'DELETE /api/v1/prices/gpu-*': {},
  })
  show('prices')
  expect((await screen.findByRole('row', { name: /gpu-\*/ })).textContent).toContain('2.5 EUR')
  await userEvent.type(screen.getByLabelText('Machine'), 'pi-4')
  await userEvent.type(screen.getByLabelText('Price per hour'), '0.01')
  await userEvent.click(screen.getByRole('button', { name: 'Keep' }))
  expect(await (await sent(asked, 'PUT')).json()).toMatchObject({ per_hour: 0.01, currency: 'USD' })
  await userEvent.click(screen.getByRole('button', { name: /Remove.*gpu/ }))
  expect(decodeURIComponent(new URL((await sent(asked, 'DELETE')).url).pathname)).toBe('/api/v1/prices/gpu-*')
})

test('the theme is chosen and applied', async () => {
  answer(given())
  show('theme')
  await userEvent.click(await screen.findByRole('radio', { name: 'Dark' }))
  expect(document.documentElement.dataset.theme).toBe('dark')
  await userEvent.click(screen.getByRole('radio', { name: 'Light' }))
  expect(document.documentElement.dataset.theme).toBe('light')
})

test('about says the version and who one is; the tab is in the address', async () => {
  answer(given())
  const { router } = show()
  await userEvent.click(await screen.findByRole('tab', { name: 'About' }))
  expect(router.state.location.search).toEqual({ tab: 'about' })
  expect(await screen.findByText('ada, with the role admin')).toBeTruthy()
})
