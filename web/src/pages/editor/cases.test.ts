import { describe, expect, it } from 'vitest'
import { CASES, caseOf, shownValue, withEntry } from './cases'
import { type Plain, plainOf } from './document'

const read = (text: string): Plain => {
  const plain = plainOf(text)
  if (plain === null) throw new Error(`not readable: ${text}`)
  return plain
}
const entryOf = (key: string, label: string) => {
  const entry = CASES.find((one) => one.key === key)?.entries.find((one) => one.label === label)
  if (entry === undefined) throw new Error(`no entry ${label}`)
  return entry
}
const starterOf = (key: string) => CASES.find((one) => one.key === key)?.starter ?? ''
const write = (text: string, key: string, label: string, value: string) =>
  withEntry(text, read(text), entryOf(key, label), value)

describe.each(CASES)('$name', (one) => {
  it('begins with a file of its own kind', () => {
    expect(caseOf(read(one.starter))).toBe(one.key)
  })
  it.each(one.entries)('shows what is written: $label', (entry) => {
    const written = entry.options?.[1] ?? (entry.kind === 'text' || entry.kind === 'secret' ? 'SOME' : '7')
    const text = withEntry(one.starter, read(one.starter), entry, written)
    expect(shownValue(read(text), entry)).toBe(written)
    expect(caseOf(read(text))).toBe(one.key)
  })
})

it('makes a matrix of several values, and none of one', () => {
  const several = write(starterOf('model'), 'model', 'Batch', '1, 8')
  expect(read(several)).toMatchObject({ matrix: { 'workload.batch': [1, 8] } })
  expect(read(several).workload).toBeUndefined()
  const one = write(several, 'model', 'Batch', '4')
  expect(read(one)).toMatchObject({ workload: { batch: 4 } })
  expect(read(one).matrix).toBeUndefined()
})

it('names a key by its variable, and never holds it', () => {
  const text = write(starterOf('endpoint'), 'endpoint', 'Variable with the key', 'API_KEY')
  expect(read(text)).toMatchObject({ target: { headers: { Authorization: `Bearer $${'{'}env:API_KEY}` } } })
  expect(read(write(text, 'endpoint', 'Variable with the key', '')).target).not.toHaveProperty('headers')
})

it('writes into the service that the target names', () => {
  const text = 'benchmark: x\nservices:\n  db: {command: a}\ntarget: {service: db, api: qdrant}\n'
  expect(read(write(text, 'service', 'Command that starts it', 'b'))).toMatchObject({
    services: { db: { command: 'b' } },
  })
})

it('knows no case for the hardware itself', () => {
  expect(caseOf({ target: { device: 'cpu' } })).toBeNull()
})
