import { expect, it } from 'vitest'
import type { Api } from '@/api/client'
import { labelsOf } from '@/pages/benchmarks/labels'
import { trendOf, trendText } from '@/pages/benchmarks/trend'

const HEADLINE: Api<'Headline'> = {
  benchmark: 'chat',
  metric: 'ttft_ms',
  unit: 'ms',
  better: 'lower',
  series: 's1',
  label: '',
  median: 12,
  interval: { low: 11.5, high: 12.5, level: 0.95, method: '' },
  verdict: 'valid',
  points: [
    { at: 1, value: 10, standard_error: 0.5 },
    { at: 2, value: null, standard_error: null },
    { at: 3, value: 12, standard_error: null },
  ],
}

it('draws doubt only where the spread is known, and nothing where nothing was measured', () => {
  const [first, second, ...others] = trendOf(HEADLINE)
  expect(first?.low).toBeCloseTo(9.02)
  expect(first?.high).toBeCloseTo(10.98)
  expect(second).toEqual({ at: 3, value: 12, low: null, high: null })
  expect(others).toEqual([])
})

it('says in words what the line shows', () => {
  expect(trendText(HEADLINE)).toBe('ttft_ms, 2 results, from 10.0 to 12.0 ms, lower is better')
  expect(trendText({ ...HEADLINE, points: [] })).toBe('ttft_ms: no result with a value yet')
})

it('reads labels as they are typed', () => {
  expect(labelsOf(' team=vision, commit=a=b ')).toEqual({ team: 'vision', commit: 'a=b' })
  expect(labelsOf('')).toEqual({})
  expect(labelsOf('team')).toBeNull()
  expect(labelsOf('=x')).toBeNull()
  expect(labelsOf('team=')).toBeNull()
})
