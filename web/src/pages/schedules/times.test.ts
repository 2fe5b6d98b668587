import { expect, test } from 'vitest'
import { cronWords, formOf, localWords, sectionOf } from '@/pages/schedules/times'

test.each([
  ['0 3 * * *', 'every day at 03:00'],
  ['30 6 * * mon-fri', 'Monday to Friday at 06:30'],
  ['@hourly', 'every hour, on the hour'],
  ['*/15 * * * *', 'every 15 minutes'],
  ['@weekly', 'every Sunday at 00:00'],
  ['10 1 * * 1', 'every Monday at 01:10'],
  ['0 6 1 * *', 'on day 1 of every month at 06:00'],
  ['50 5 1,15 * *', 'on the days 1 and 15 of every month at 05:50'],
  ['5 * * * *', 'every hour, at minute 5'],
])('%s is %s', (cron, words) => expect(cronWords(cron)).toBe(words))

// As in cron, a day of the month and a weekday together mean one or the other: better no words than wrong ones.
test.each([
  '0 3 1 * mon',
  '0 8-18 * * *',
  '0 3 * jan *',
  '0 3 L * *',
  '0 3 * * mon,wed',
  'nonsense',
  '* * * * *',
  '0 0 3 * * *',
])('%s has no easy words', (cron) => {
  expect(cronWords(cron)).toBeNull()
})

test('a section comes into the form and out again', () => {
  const section = { cron: '0 3 * * *', timezone: 'Europe/Luxembourg', jitter: 600, missed: 'all', overlap: 'queue' }
  expect(sectionOf(formOf(section))).toEqual({ ...section, jitter: '600s' })
  expect(sectionOf(formOf('@daily'))).toEqual({ cron: '@daily', timezone: 'UTC', missed: 'once', overlap: 'skip' })
  expect(formOf(undefined).cron).toBe('0 3 * * *')
})

test('a due time keeps the clock of its zone', () => {
  expect(localWords('2026-11-24T03:00:00+01:00')).toBe('Tue 2026-11-24 03:00 +01:00')
})
