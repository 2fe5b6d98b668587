import { expect, it } from 'vitest'
import { byPhase, standingOf, standingText } from '@/pages/campaigns/progress'

it('counts runs from one and says the phase', () => {
  const standing = standingOf({ progress: { run: 1, runs: 5, phase: 'measure', share: 0.5 } })
  expect(standingText(standing)).toBe('run 2 of 5, measure')
  expect(standing.share).toBe(0.2)
})

it('invents nothing where the agent has not said', () => {
  expect(standingOf({ progress: null })).toEqual({ run: null, runs: null, phase: '', share: null })
  expect(standingText(standingOf({ progress: { phase: 'fetching' } }))).toBe('fetching')
})

it('counts only jobs that run', () => {
  const found = byPhase([
    { state: 'running', progress: { phase: 'load' } },
    { state: 'running', progress: { phase: 'load' } },
    { state: 'running', progress: null },
    { state: 'done', progress: { phase: 'load' } },
  ])
  expect([...found]).toEqual([
    ['load', 2],
    ['', 1],
  ])
})
