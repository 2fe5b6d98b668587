import { expect, test } from 'vitest'
import { comparison } from '@/pages/compare/examples'
import { axesOf, layOut } from '@/pages/compare/heat'

test('axes are the sides, the jobs and what varies in the matrix', () => {
  expect(axesOf(comparison())).toEqual(['side', 'job', 'workload.batch'])
})

test('every job has a field per side, with its sign and its change', () => {
  const map = layOut(comparison(), 'latency_ms', 'job', 'side')
  expect(map.rows).toEqual(['batch=1', 'batch=8'])
  expect(map.columns).toEqual(['before', 'after'])
  const at = (row: number, column: number) => map.fields.find((one) => one.row === row && one.column === column)
  expect(at(0, 0)?.text).toBe('10.00 ms')
  expect(at(0, 1)).toMatchObject({ text: '▼ +10 %', answer: 'worse', strength: 1, job: 'job-b' })
  expect(at(1, 1)).toMatchObject({ text: '◆ +2.0 %', answer: 'cannot tell' })
  expect(at(1, 1)?.detail).toContain('about 18 more runs')
})

test('results that fall on one field are counted, and none stands for the others', () => {
  const map = layOut(comparison(), 'latency_ms', 'benchmark', 'side')
  expect(map.fields.map((one) => one.text)).toEqual(['2 results', '2 results'])
  expect(map.fields.every((one) => one.change === null && one.answer === '')).toBe(true)
})

test('a metric that no side has gives no field', () => {
  expect(layOut(comparison(), 'power_w', 'job', 'side').fields).toEqual([])
})
