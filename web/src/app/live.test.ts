import { expect, it } from 'vitest'
import { keysOf } from '@/app/live'

it('asks for comparisons and trends again only where a result came in', () => {
  expect(keysOf({ kind: 'result accepted' })).toEqual(expect.arrayContaining(['compare', 'headlines', 'jobs']))
  expect(keysOf({ kind: 'leased' })).not.toContain('compare')
  expect(keysOf({ kind: 'leased' })).toContain('agents')
})

it('refetches little while a job is running', () => {
  expect(keysOf({ kind: 'progress' })).toEqual(['campaign', 'job', 'jobs', 'overview', 'logs'])
})
