import type { Cell, Comparison, Frontier, FrontPoint, Row } from '@/pages/compare/records'

/** Answers as the server gives them, for tests. */
const interval = (low: number, high: number) => ({ low, high, level: 0.95, method: 'by hand' })

const metric = (median: number): Cell['metric'] => ({
  unit: 'ms',
  better: 'lower',
  median,
  interval: interval(median * 0.98, median * 1.02),
  p99: null,
  runs: 5,
  samples: 500,
})

const base = (median: number): Cell => ({
  side: 'campaign:aaa',
  job: 'job-a',
  verdict: 'valid',
  metric: metric(median),
  change: null,
  answer: 'base',
  because: [],
  comparable: true,
})

const judged = (
  median: number,
  answer: 'better' | 'worse' | 'cannot tell',
  change: [number, number],
  because: string[] = [],
): Cell => ({
  side: 'campaign:bbb',
  job: 'job-b',
  verdict: 'valid',
  metric: metric(median),
  change: interval(...change),
  answer,
  because,
  comparable: true,
})

const row = (batch: number, cells: Cell[]): Row => ({
  benchmark: 'squeezenet',
  label: `batch=${batch}`,
  point: { 'workload.batch': batch, 'target.threads': 1 },
  metric: 'latency_ms',
  unit: 'ms',
  better: 'lower',
  cells,
})

export function comparison(changes: Partial<Comparison> = {}): Comparison {
  return {
    sides: [
      {
        key: 'campaign:aaa',
        kind: 'campaign',
        name: 'before',
        says: 'squeezenet of Monday',
        results: 2,
        campaigns: ['aaa'],
      },
      {
        key: 'campaign:bbb',
        kind: 'campaign',
        name: 'after',
        says: 'squeezenet of Tuesday',
        results: 2,
        campaigns: ['bbb'],
      },
    ],
    rows: [
      row(1, [base(10), judged(11, 'worse', [0.08, 0.12])]),
      row(8, [
        base(50),
        judged(
          51,
          'cannot tell',
          [-0.01, 0.05],
          ['the change may be none; about 18 more runs on each side would tell'],
        ),
      ]),
    ],
    not_comparable: [],
    metrics: ['latency_ms', 'throughput_per_s'],
    warnings: [],
    left_out: 0,
    promise: '',
    ...changes,
  }
}

const point = (job: string, side: string, x: number, y: number, on_front: boolean): FrontPoint => ({
  job,
  campaign: side.slice(9),
  benchmark: 'squeezenet',
  label: job,
  machine: 'pi-4',
  side,
  x,
  x_interval: interval(x * 0.9, x * 1.1),
  y,
  y_interval: interval(y * 0.9, y * 1.1),
  verdict: 'valid',
  on_front,
  surely: on_front,
  grade: '',
})

export function frontier(): Frontier {
  return {
    x: { metric: 'latency_ms', unit: 'ms', better: 'lower' },
    y: { metric: 'throughput_per_s', unit: '1/s', better: 'higher' },
    points: [point('job-a', 'campaign:aaa', 10, 100, true), point('job-b', 'campaign:bbb', 11, 90, false)],
    absent: { 'job-c': 'power was not read' },
    metrics: ['latency_ms', 'throughput_per_s'],
    sides: [],
  }
}
