import { expect, it } from 'vitest'
import { placeOn, scaleOf } from '@/pages/campaigns/Whisker'

const drawn = (median: number, low: number, high: number) => ({ median, interval: { low, high } })

it('gives all marks one scale that holds their intervals', () => {
  expect(scaleOf([drawn(10, 8, 12), { median: 20, interval: null }])).toEqual({ low: 8, high: 20, log: false })
  expect(scaleOf([])).toBeNull()
})

it('is logarithmic where values are far apart and above zero', () => {
  expect(scaleOf([drawn(1, 0.9, 1.1), drawn(500, 490, 510)])?.log).toBe(true)
  expect(scaleOf([drawn(1, -1, 3), drawn(500, 490, 510)])?.log).toBe(false)
})

it('places in order and within the rail', () => {
  const scale = { low: 1, high: 100, log: true }
  const places = [1, 10, 100].map((value) => placeOn(scale, value))
  expect(places[1]).toBeCloseTo(((places[0] ?? 0) + (places[2] ?? 0)) / 2)
  expect(placeOn(scale, 0)).toBe(places[0])
  expect(placeOn({ low: 5, high: 5, log: false }, 5)).toBeGreaterThan(places[0] ?? 0)
})
