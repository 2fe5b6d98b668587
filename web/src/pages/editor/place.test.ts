import { describe, expect, it } from 'vitest'
import { placeAt } from './place'

/** The place at `|` in a text. */
const at = (text: string) => {
  const place = placeAt(text.replace('|', ''), text.indexOf('|'))
  return place && [place.path.join('/'), place.kind, place.word]
}

describe('placeAt', () => {
  it.each([
    ['ben|', '', 'key', 'ben'],
    ['benchmark: x\ntarget:\n  dev|', 'target', 'key', 'dev'],
    ['target:\n  device: c|', 'target/device', 'value', 'c'],
    ['target:\n  device: |', 'target/device', 'value', ''],
    ['target:\n  model: a\nload|', '', 'key', 'load'],
    ['target:\n  model: a\n\n  # why\n  thr|', 'target', 'key', 'thr'],
    ['target:\n  metrics:\n    - name: a\n      be|', 'target/metrics/0', 'key', 'be'],
    ['target:\n  metrics:\n  - name: a\n  - na|', 'target/metrics/1', 'key', 'na'],
    ['measure: {runs: 3, war|', 'measure', 'key', 'war'],
    ['measure: {runs: 3, until: {interval: |', 'measure/until/interval', 'value', ''],
    ['matrix:\n  workload.batch: [1, |', 'matrix/workload.batch/1', 'value', ''],
    ['"target":\n  de|', 'target', 'key', 'de'],
    ['services:\n  db:\n    ready: {http: /x}\n    com|', 'services/db', 'key', 'com'],
  ])('%j', (text, path, kind, word) => {
    expect(at(text)).toEqual([path, kind, word])
  })
  it('offers nothing in comments and block texts', () => {
    expect(at('# tar|')).toBeNull()
    expect(at('description: >\n  some te|')).toBeNull()
  })
  it('continues after a block text', () => {
    expect(at('description: >\n  some text: here\ntar|')).toEqual(['', 'key', 'tar'])
  })
})
