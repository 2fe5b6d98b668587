import { describe, expect, it } from 'vitest'
import { axesOf, chosenAxes, defaultAxes, EACH, NONE, sheetsOf, shortValues } from '@/pages/campaigns/grid'

const job = (id: string, point: Record<string, unknown>) => ({ id, label: id, point })
const JOBS = [1, 8, 32].flatMap((batch) =>
  [1, 2].flatMap((threads) =>
    ['cpu', 'cuda'].map((device) =>
      job(`${batch}-${threads}-${device}`, {
        'workload.batch': batch,
        'target.threads': threads,
        'target.device': device,
      }),
    ),
  ),
)

describe('the axes of a campaign', () => {
  it('have their values in the order of the matrix, and short names', () => {
    expect(axesOf(JOBS)[0]).toEqual({ path: 'workload.batch', name: 'batch', values: ['1', '8', '32'] })
  })

  it('keep the whole path where two would be called the same', () => {
    const axes = axesOf([job('a', { 'load.rate': 1, 'target.rate': 2 })])
    expect(axes.map((axis) => axis.name)).toEqual(['load.rate', 'target.rate'])
  })

  it('begin with the longer one down the page', () => {
    const [, threads, device] = axesOf(JOBS)
    const [batch] = axesOf(JOBS)
    if (!batch || !threads || !device) throw new Error('an axis is missing')
    expect(defaultAxes([threads, batch])).toEqual({ rows: 'workload.batch', columns: 'target.threads' })
    expect(defaultAxes([batch])).toEqual({ rows: 'workload.batch', columns: NONE })
    expect(defaultAxes([])).toEqual({ rows: EACH, columns: NONE })
  })

  it('are chosen by the address only where they exist', () => {
    const axes = axesOf(JOBS)
    expect(chosenAxes(axes, { rows: 'target.device', columns: 'target.threads' })).toEqual({
      rows: 'target.device',
      columns: 'target.threads',
    })
    expect(chosenAxes(axes, { rows: 'gone', columns: 'gone' })).toEqual({
      rows: 'workload.batch',
      columns: 'target.threads',
    })
    expect(chosenAxes(axes, { rows: 'target.threads', columns: 'target.threads' })).toEqual({
      rows: 'target.threads',
      columns: 'workload.batch',
    })
    expect(chosenAxes(axes, { rows: EACH, columns: 'target.threads' })).toEqual({ rows: EACH, columns: NONE })
    expect(chosenAxes(axes, { rows: '', columns: NONE }).columns).toBe(NONE)
  })
})

describe('the sheets of a grid', () => {
  it('are one for each combination of the other axes, with every job in its place', () => {
    const sheets = sheetsOf(JOBS, axesOf(JOBS), 'workload.batch', 'target.threads')
    expect(sheets.map((sheet) => sheet.title)).toEqual(['device = cpu', 'device = cuda'])
    expect(sheets[1]?.at('8', '2').map((one) => one.id)).toEqual(['8-2-cuda'])
    expect(sheets[1]?.at('8', '3')).toEqual([])
  })

  it('show every job in a line of its own when asked', () => {
    const [sheet, ...others] = sheetsOf(JOBS, axesOf(JOBS), EACH, NONE)
    expect(others).toEqual([])
    expect(sheet?.rows).toHaveLength(JOBS.length)
  })
})

it('leaves out folders only where the rest tells values apart', () => {
  expect([...shortValues(['models/a.onnx', 'models/b.onnx']).values()]).toEqual(['a.onnx', 'b.onnx'])
  expect([...shortValues(['x/a.onnx', 'y/a.onnx']).values()]).toEqual(['x/a.onnx', 'y/a.onnx'])
  expect([...shortValues(['sh -c "a/b"']).values()]).toEqual(['sh -c "a/b"'])
})
