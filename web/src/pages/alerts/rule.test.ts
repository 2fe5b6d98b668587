import { expect, test } from 'vitest'
import { formOf, NEW_RULE, ruleOf } from '@/pages/alerts/rule'

const kept = (rule: Record<string, unknown>) => ({
  id: '1',
  name: 'mine',
  origin: 'api',
  benchmark: 'chat-*',
  rule,
  says: '',
  created_at: 0,
  changed_at: 0,
  by: '',
  told_at: null,
})

test('only what belongs to its kind becomes part of a rule', () => {
  const form = { ...NEW_RULE, metric: 'ttft_ms.p99', by: '5%', value: '50', after: '24h' }
  expect(ruleOf({ ...form, when: 'worse' })).toEqual({
    when: 'worse',
    severity: 'warning',
    metric: 'ttft_ms.p99',
    by: '5%',
  })
  expect(ruleOf({ ...form, when: 'above' })).toEqual({
    when: 'above',
    severity: 'warning',
    metric: 'ttft_ms.p99',
    value: 50,
  })
  expect(ruleOf({ ...form, when: 'failed' })).toEqual({ when: 'failed', severity: 'warning' })
  expect(ruleOf({ ...form, when: 'silent' })).toEqual({ when: 'silent', severity: 'warning', after: '24h' })
})

test('notifications: channels as a list, a time zone only with quiet hours', () => {
  const form = { ...NEW_RULE, when: 'failed' as const, timezone: 'Europe/Luxembourg', notify: ' team-chat, mail ,' }
  expect(ruleOf(form)).toEqual({ when: 'failed', severity: 'warning', notify: ['team-chat', 'mail'] })
  expect(ruleOf({ ...form, quiet: '22:00-07:00', at_most_every: '1h' })).toMatchObject({
    quiet: '22:00-07:00',
    timezone: 'Europe/Luxembourg',
    at_most_every: '1h',
  })
})

test('a kept rule comes back as it was written', () => {
  const rule = {
    when: 'worse',
    metric: 'ttft_ms.p99',
    by: 0.05,
    severity: 'critical',
    notify: ['team-chat'],
    at_most_every: 3600,
    timezone: 'UTC',
    quiet: null,
  }
  expect(ruleOf(formOf(kept(rule)))).toEqual({
    when: 'worse',
    metric: 'ttft_ms.p99',
    by: '5%',
    severity: 'critical',
    notify: ['team-chat'],
    at_most_every: '3600s',
  })
  expect(ruleOf(formOf(kept({ when: 'above', metric: 'm', value: 50, at_most_every: 0 })))).toEqual({
    when: 'above',
    severity: 'warning',
    metric: 'm',
    value: 50,
  })
})
