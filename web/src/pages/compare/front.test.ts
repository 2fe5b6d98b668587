import { expect, test } from 'vitest'
import type { Colours } from '@/charts/colours'
import { frontier } from '@/pages/compare/examples'
import { axisName, frontOf, optionOf, standing, valueWords } from '@/pages/compare/front'

const colours: Colours = {
  ink: '#000',
  muted: '#555',
  line: '#ccc',
  grid: '#eee',
  surface: '#fff',
  raised: '#fff',
  accent: '#00f',
  accentSoft: '#00f1',
  good: '#0a0',
  warn: '#aa0',
  bad: '#a00',
  unknown: '#666',
  band: '#fa0',
  series: ['#111', '#222'],
}

test('the front runs along x', () => {
  const found = frontier()
  const further = { ...found.points[0], x: 5, y: 50 } as (typeof found.points)[number]
  expect(frontOf({ ...found, points: [...found.points, further] }).map((one) => one.x)).toEqual([5, 10])
})

test('a point has its intervals, and whether it is certainly on the front', () => {
  const [first] = frontier().points
  expect(valueWords(10, { low: 9, high: 11 }, 'ms')).toBe('10.0 ms [9.0, 11.0]')
  expect(valueWords(10, null, 'ms')).toContain('(no interval)')
  expect(first && standing({ ...first, surely: false })).toContain('cannot tell')
  expect(axisName(frontier().x)).toBe('latency_ms (ms), lower is better')
})

test('every point has whiskers in both directions and its job to lead to', () => {
  const option = optionOf(
    frontier(),
    [
      { key: 'campaign:aaa', name: 'before' },
      { key: 'campaign:bbb', name: 'after' },
    ],
    colours,
  )
  const [whiskers, line, before, after] = option.series
  expect(whiskers?.data).toEqual([
    [10, 100, 9, 11, 90, 110.00000000000001],
    [11, 90, 9.9, 12.100000000000001, 81, 99.00000000000001],
  ])
  expect(line?.data).toEqual([[10, 100]])
  expect(before?.data).toHaveLength(1)
  expect(after?.data[0]).toMatchObject({ value: [11, 90], job: 'job-b', itemStyle: { color: '#fff' } })
})
