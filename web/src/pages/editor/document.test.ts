import { describe, expect, it } from 'vitest'
import { plainOf, valueAt, withValue, writtenOf } from './document'

const FILE = `# why this is measured
benchmark: mine
target:
  model: a.onnx   # the small one
  device: cpu
workload: {batch: 1}
`

describe('withValue', () => {
  it('changes one value and leaves comments and order alone', () => {
    expect(withValue(FILE, ['target', 'device'], 'cuda')).toBe(FILE.replace('device: cpu', 'device: cuda'))
  })
  it('quotes what would mean something else', () => {
    for (const value of ['a, b', '12', 'a: b', '# x', '', 'yes {', "it's", 'null'])
      for (const path of [
        ['target', 'model'],
        ['workload', 'batch'],
      ])
        expect(valueAt(plainOf(withValue(FILE, path, value)), path)).toBe(value)
  })
  it('makes the sections above a new value, and writes a list on one line', () => {
    expect(withValue(FILE, ['matrix', 'workload.batch'], [1, 8])).toContain(
      'batch: 1}\nmatrix:\n  workload.batch: [1, 8]\n',
    )
  })
  it('takes a value away, and a section that is left empty', () => {
    const left = withValue(FILE, ['workload', 'batch'], undefined)
    expect(plainOf(left)).toEqual({ benchmark: 'mine', target: { model: 'a.onnx', device: 'cpu' } })
    expect(left).toContain('# the small one')
  })
  it('puts a section where a plain value stood', () => {
    expect(plainOf(withValue('target: x\n', ['target', 'model'], 'y'))).toEqual({ target: { model: 'y' } })
  })
  it('leaves a text that cannot be read as it is', () => {
    expect(withValue('a: [1', ['b'], 2)).toBe('a: [1')
  })
})

describe('plainOf', () => {
  it('is null where the text is no mapping or is broken', () => {
    expect(plainOf('a: [1')).toBeNull()
    expect(plainOf('- 1')).toBeNull()
    expect(plainOf('')).toEqual({})
  })
  it('does not unfold anchors without end', () => {
    const bomb = [
      'a: &a [1,1,1,1,1,1,1,1,1]',
      ...'bcdefghi'
        .split('')
        .map((name, at) => `${name}: &${name} [${Array(9).fill(`*${'abcdefghi'[at]}`).join(',')}]`),
    ].join('\n')
    expect(plainOf(bomb)).toBeNull()
  })
})

it('finds values by keys and positions', () => {
  expect(valueAt({ a: [{ b: 3 }] }, ['a', 0, 'b'])).toBe(3)
  expect(valueAt({ a: 1 }, ['a', 'b'])).toBeUndefined()
})

it('writes a stored document so that it reads back the same', () => {
  const stored = { benchmark: 'on: off', target: { model: '12' }, matrix: { 'workload.batch': [1, 2] } }
  expect(plainOf(writtenOf(stored))).toEqual(stored)
})
