import { screen, waitFor, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { expect, test } from 'vitest'
import AlertsPage from '@/pages/alerts/AlertsPage'
import { answer, showPage } from '@/testing/page'
import { alert, HOSTILE, listed, READER, SESSION, START, sent } from '@/watching/examples'

const SIGNED = { 'GET /api/v1/session': SESSION, 'GET /api/v1/channels': listed() }
const ALERTS = 'GET /api/v1/alerts'
const RULES = 'GET /api/v1/alert-rules'
const NOTICES = 'GET /api/v1/notices'
const show = (search = '') => showPage(AlertsPage, '/alerts', `/alerts${search}`)
const rule = {
  id: '77aa',
  name: 'slow first token',
  origin: 'api',
  benchmark: 'chat-*',
  rule: { metric: 'ttft_ms.p99', when: 'above', value: 50, severity: 'critical' },
  says: 'ttft_ms.p99 > 50',
  created_at: START,
  changed_at: START,
  by: 'ada',
  told_at: null,
}
const notice = {
  id: 17,
  key: 'k',
  channel: 'team-chat',
  alert: '5f0c1d2e3a4b5c6d',
  subject: '[warning] slower',
  state: 'given-up',
  tries: 8,
  created_at: START,
  next_at: null,
  sent_at: null,
  error: 'chat.example.com answered 503',
}

test('lists what is not over yet, and acknowledges with a reason', async () => {
  const { asked } = answer({
    ...SIGNED,
    [ALERTS]: listed(alert()),
    'POST /api/v1/alerts/5f0c1d2e3a4b5c6d/acknowledge': alert({ state: 'acknowledged' }),
  })
  show()
  const row = await screen.findByRole('row', { name: /10 % worse/ })
  expect(new URL(asked.find((one) => one.url.includes('/api/v1/alerts'))?.url ?? '').searchParams.get('state')).toBe(
    'active',
  )
  expect(row.textContent).toContain('a series changed')
  await userEvent.click(await within(row).findByRole('button', { name: 'Acknowledge' }))
  const dialog = await screen.findByRole('dialog', { name: 'Acknowledge this alert' })
  await userEvent.type(within(dialog).getByLabelText(/Why/), 'the new tokenizer')
  await userEvent.click(within(dialog).getByRole('button', { name: 'Acknowledge' }))
  await waitFor(async () =>
    expect(await sent(asked, 'POST', '/api/v1/alerts/5f0c1d2e3a4b5c6d/acknowledge')).toEqual({
      why: 'the new tokenizer',
    }),
  )
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull())
})

test('a snooze has a length', async () => {
  const { asked } = answer({
    ...SIGNED,
    [ALERTS]: listed(alert()),
    'POST /api/v1/alerts/5f0c1d2e3a4b5c6d/snooze': alert({ state: 'snoozed' }),
  })
  show()
  await userEvent.click(await screen.findByRole('button', { name: 'Snooze' }))
  const dialog = await screen.findByRole('dialog')
  await userEvent.selectOptions(within(dialog).getByLabelText('For how long'), '1 day')
  await userEvent.click(within(dialog).getByRole('button', { name: 'Snooze' }))
  await waitFor(async () =>
    expect(await sent(asked, 'POST', '/api/v1/alerts/5f0c1d2e3a4b5c6d/snooze')).toEqual({ why: '', for_s: 86_400 }),
  )
})

test('what the server refuses is shown in the dialog', async () => {
  answer({ ...SIGNED, [ALERTS]: listed(alert()), 'POST /api/v1/alerts/5f0c1d2e3a4b5c6d/acknowledge': 409 })
  show()
  await userEvent.click(await screen.findByRole('button', { name: 'Acknowledge' }))
  const dialog = await screen.findByRole('dialog')
  await userEvent.click(within(dialog).getByRole('button', { name: 'Acknowledge' }))
  expect((await within(dialog).findByRole('alert')).textContent).toContain('failed with 409')
})

test('filters are in the address', async () => {
  const { asked } = answer({ ...SIGNED, [ALERTS]: listed(alert()) })
  const { router } = show('?severity=critical')
  await userEvent.selectOptions(await screen.findByLabelText('State'), 'resolved')
  await waitFor(() => expect(router.state.location.search).toMatchObject({ state: 'resolved', severity: 'critical' }))
  await waitFor(() =>
    expect(asked.some((one) => one.url.includes('state=resolved') && one.url.includes('severity=critical'))).toBe(true),
  )
})

test('no alert is good news; a failure is shown; markup stays text; a reader has no buttons', async () => {
  answer({ ...SIGNED, [ALERTS]: listed() })
  const empty = show()
  expect(await screen.findByText(/no alert is open/)).toBeTruthy()
  empty.unmount()
  answer({ ...SIGNED, [ALERTS]: 500 })
  const failed = show()
  expect((await screen.findByRole('alert')).textContent).toContain('failed with 500')
  failed.unmount()
  answer({ 'GET /api/v1/session': READER, [ALERTS]: listed(alert({ title: HOSTILE })) })
  const { container } = show()
  expect(await screen.findByRole('link', { name: HOSTILE })).toBeTruthy()
  expect(container.querySelector('img')).toBeNull()
  expect(screen.queryByRole('button', { name: 'Acknowledge' })).toBeNull()
})

test('a rule is added by a form that asks only for what its kind needs', async () => {
  const { asked } = answer({ ...SIGNED, [RULES]: listed(), 'PUT /api/v1/alert-rules/too%20slow': rule })
  show('?tab=rules')
  expect(await screen.findByText(/No rules yet/)).toBeTruthy()
  await userEvent.click(await screen.findByRole('button', { name: 'Add a rule' }))
  const dialog = within(await screen.findByRole('dialog', { name: 'Add a rule' }))
  expect(dialog.queryByLabelText('Limit')).toBeNull()
  await userEvent.type(dialog.getByLabelText('Name'), 'too slow')
  await userEvent.selectOptions(dialog.getByLabelText('Open an alert when'), 'above')
  await userEvent.type(dialog.getByLabelText('Metric'), 'ttft_ms.p99')
  await userEvent.type(dialog.getByLabelText('Limit'), '50')
  await userEvent.click(dialog.getByRole('button', { name: 'Add the rule' }))
  await waitFor(async () =>
    expect(await sent(asked, 'PUT', '/api/v1/alert-rules/too%20slow')).toEqual({
      benchmark: '*',
      rule: { when: 'above', severity: 'warning', metric: 'ttft_ms.p99', value: 50 },
    }),
  )
})

test('a rule of a file cannot be changed here; one given here can be removed after a question', async () => {
  const { asked } = answer({
    ...SIGNED,
    [RULES]: listed(rule, { ...rule, id: 'f', name: 'of a file', origin: 'file', says: 'job failed' }),
    'DELETE /api/v1/alert-rules/slow%20first%20token': {},
  })
  show('?tab=rules')
  const ofFile = await screen.findByRole('row', { name: /job failed/ })
  expect(within(ofFile).queryByRole('button')).toBeNull()
  const own = screen.getByRole('row', { name: /ttft_ms.p99 > 50/ })
  expect(own.textContent).toContain('critical')
  await userEvent.click(await within(own).findByRole('button', { name: 'Remove' }))
  await userEvent.click(within(await screen.findByRole('dialog')).getByRole('button', { name: 'Remove' }))
  await waitFor(() => expect(asked.some((one) => one.method === 'DELETE')).toBe(true))
})

test('messages show their outcome, and one that was given up is sent again', async () => {
  const { asked } = answer({
    ...SIGNED,
    [NOTICES]: listed(notice),
    'POST /api/v1/notices/17/again': { ...notice, state: 'waiting' },
  })
  show('?tab=messages')
  const row = await screen.findByRole('row', { name: /team-chat/ })
  expect(row.textContent).toContain('chat.example.com answered 503')
  await userEvent.click(await within(row).findByRole('button', { name: 'Send again' }))
  await waitFor(() =>
    expect(asked.some((one) => one.method === 'POST' && one.url.endsWith('/notices/17/again'))).toBe(true),
  )
})
