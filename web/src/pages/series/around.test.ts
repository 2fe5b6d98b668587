import { expect, test } from 'vitest'
import { changesAround } from '@/pages/series/around'
import { point } from '@/watching/examples'

const of = (...contexts: Record<string, unknown>[]) =>
  changesAround(contexts.map((context, at) => point(at + 1, 1, { context })))

test('what differs from one point to the next is listed once, by kind', () => {
  const found = of({ driver: '550', commit: 'a' }, { driver: '560', commit: 'b' }, { driver: '560', commit: 'b' })
  expect(found.map((one) => [one.point.id, one.kind, one.says])).toEqual([
    [2, 'environment', ['driver 550 → 560']],
    [2, 'code', ['commit a → b']],
  ])
})

test('packages and settings go by their own names', () => {
  const found = of(
    { packages: { numpy: '1', torch: '2' }, method: { measure: { runs: 3 } } },
    { packages: { numpy: '2', torch: '2' }, method: { measure: { runs: 5 } } },
  )
  expect(found.map((one) => one.says)).toEqual([['package numpy 1 → 2'], ['measure.runs 3 → 5']])
  expect(found.map((one) => one.kind)).toEqual(['environment', 'method'])
})

test('a point that leaves a thing out changes nothing about it', () => {
  expect(of({ driver: '550' }, {}, { driver: '550' })).toEqual([])
  expect(of({ driver: '550' }, {}, { driver: '560' }).map((one) => one.point.id)).toEqual([3])
})

test('hashes and what is read on its own say nothing here', () => {
  expect(
    of(
      { spec: 'a', machine_id: '1', control: { integer_ms: 1 } },
      { spec: 'b', machine_id: '2', control: { integer_ms: 2 } },
    ),
  ).toEqual([])
})
