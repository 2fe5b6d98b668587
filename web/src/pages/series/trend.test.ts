import { expect, test } from 'vitest'
import { described, levelsOf, numbersOf, trendOf } from '@/pages/series/trend'
import { finding, point, points, START, series } from '@/watching/examples'

const DAY = 86_400

test('levels go from change to change, and a drift slopes', () => {
  expect(levelsOf(points(), [finding()])).toEqual([
    { from: START, to: START + 2 * DAY, first: 100, last: 100 },
    { from: START + 3 * DAY, to: START + 5 * DAY, first: 110, last: 110 },
  ])
  const drift = finding({}, { kind: 'drift', range: [3, 5] })
  expect(levelsOf(points(), [drift])[1]).toEqual({ from: START + 2 * DAY, to: START + 5 * DAY, first: 100, last: 110 })
})

test('without a change the level is the middle of all results', () => {
  expect(levelsOf([point(1, 3), point(2, 1), point(3, 2)], [])).toEqual([
    { from: START, to: START + 2 * DAY, first: 2, last: 2 },
  ])
  expect(levelsOf([point(1, null)], [])).toEqual([])
})

test('a part of the time keeps the level that holds there', () => {
  const trend = trendOf(series(), points(), [finding()], START + 4 * DAY)
  expect(trend.points.map((one) => one.id)).toEqual([5, 6])
  expect(trend.turns).toEqual([])
  expect(trend.levels).toEqual([{ from: START + 4 * DAY, to: START + 5 * DAY, first: 110, last: 110 }])
})

test('every level with its band lies on the axis, but a wild result does not stretch it', () => {
  const many = [...Array(200).keys()].map((at) => point(at + 1, at === 100 ? 10_000 : 100 + (at % 3)))
  const trend = trendOf(series({ report: { spread: 5 } }), many, [])
  expect(trend.low).toBeLessThanOrEqual(101 - 1.96 * 5)
  expect(trend.high).toBeGreaterThanOrEqual(101 + 1.96 * 5)
  expect(trend.high).toBeLessThan(200)
})

test('equal results still have an axis', () => {
  const trend = trendOf(series({ report: {} }), [point(1, 5), point(2, 5)], [])
  expect(trend.low).toBeLessThan(5)
  expect(trend.high).toBeGreaterThan(5)
})

test('changes are numbered in order of time; what is gone has no number', () => {
  const early = finding({ id: 'early', first_bad: point(2, 1) })
  expect([...numbersOf([finding(), finding({ id: 'gone', state: 'gone' }), early])]).toEqual([
    ['early', 1],
    ['0b7d3e5a91c2f468', 2],
  ])
})

test('says in words what it shows', () => {
  expect(described(trendOf(series(), points(), [finding()]))).toBe(
    '5 results from 2026-01-01 to 2026-01-06, between 99.00 and 110.0 ms. 1 change. 1 without a value.',
  )
  expect(described(trendOf(series(), [point(1, null)], []))).toBe('No result has a value.')
})
