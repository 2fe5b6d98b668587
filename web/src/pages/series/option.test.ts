import { expect, test } from 'vitest'
import type { Colours } from '@/charts/colours'
import { pointWords } from '@/pages/series/dots'
import { lanesOf } from '@/pages/series/lanes'
import { chartHeight, trendOption } from '@/pages/series/option'
import { trendOf } from '@/pages/series/trend'
import { alert, finding, HOSTILE, point, points, START, series } from '@/watching/examples'

const COLOURS: Colours = {
  ink: 'ink',
  muted: 'muted',
  line: 'line',
  grid: 'grid',
  surface: 'surface',
  raised: 'raised',
  accent: 'accent',
  accentSoft: 'soft',
  good: 'good',
  warn: 'warn',
  bad: 'bad',
  unknown: 'unknown',
  band: 'band',
  series: [],
}
interface Drawn {
  name: string
  data: unknown[]
  itemStyle?: { color: string }
}
const draw = (all = points(), picked = '') => {
  const trend = trendOf(series(), all, [finding()])
  const option = trendOption(trend, lanesOf(trend, [alert()]), picked)(COLOURS) as { series: Drawn[] }
  return (name: string) => option.series.find((one) => one.name === name)
}

test('every result has a dot, and a whisker of 95 %', () => {
  const drawn = draw()
  expect(drawn('valid')?.data).toHaveLength(5)
  expect(drawn('interval')?.data[0]).toEqual([START * 1000, 100 - 0.98, 100 + 0.98])
})

test('a doubtful result is drawn open, one without an interval has no whisker', () => {
  const drawn = draw([...points(), point(7, 110, { verdict: 'suspect', standard_error: null })])
  expect(drawn('suspect')?.itemStyle?.color).toBe('surface')
  expect(drawn('interval')?.data).toHaveLength(5)
})

test('what happened around is in rows below: changes, failed jobs, alerts', () => {
  const lanes = lanesOf(trendOf(series(), points(), [finding()]), [alert()])
  expect(lanes.map((one) => [one.name, one.marks.length])).toEqual([
    ['environment', 1],
    ['failed jobs', 1],
    ['alerts', 1],
  ])
  expect(lanes[0]?.marks[0]?.says).toContain('driver 550 → 560')
  expect(chartHeight(3)).toBeGreaterThan(chartHeight(0))
})

test('times that are only counted have no place for alerts', () => {
  const counted = [point(1, 1, { at: 1 }), point(2, 2, { at: 2 })]
  expect(lanesOf(trendOf(series(), counted, []), [alert()])).toEqual([])
})

test('tooltips say value, interval, verdict and machine, as plain text', () => {
  const words = pointWords(point(1, 100, { context: { machine: HOSTILE } }), 'ms')
  expect(words).toContain('100.0 ms [99.0, 101.0]')
  expect(words).toContain('valid')
  expect(words).toContain(HOSTILE)
  expect(pointWords(point(1, 100, { standard_error: null }), 'ms')).toContain('(no interval)')
})

test('a change is marked between the last good and the first bad result', () => {
  const [mark] = (draw()('changes')?.data ?? []) as { value: number[]; key: string; says: string }[]
  expect(mark?.value[0]).toBe((START + 2.5 * 86_400) * 1000)
  expect(mark?.key).toBe('finding:0b7d3e5a91c2f468')
  expect(mark?.says).toContain('worse: +10 % [+8.0 %, +12 %]')
})
