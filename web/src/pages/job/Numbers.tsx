import { useQuery } from '@tanstack/react-query'
import type { Api } from '@/api/client'
import { headlineQuery } from '@/api/queries/job'
import { Runs } from '@/pages/job/Runs'
import { type Full, versionOf } from '@/pages/job/words'
import { Card } from '@/parts/Card'
import { Empty } from '@/parts/Empty'
import { Measured } from '@/parts/Measured'
import { decimalsFor, halfWidth, percent, show } from '@/parts/numbers'
import { Table } from '@/parts/Table'

type Statistics = Api<'MetricStatistics'>

interface Metric {
  name: string
  stats: Statistics
}

/** Every metric with its doubt, what was not measured and why, and the runs one by one. */
export function Numbers({ full }: { full: Full }) {
  const { campaign, id } = full.summary
  const headline = Object.keys(useQuery(headlineQuery(campaign, id, versionOf(full))).data?.metrics ?? {})
  return (
    <>
      <Card title="Metrics">
        <p className="quiet">
          The interval of each median comes from the spread between runs, that of a percentile from all samples. A dash
          stands where the samples are too few to back a percentile.
        </p>
        <Metrics full={full} headline={headline} />
        <Absent full={full} />
      </Card>
      <Card title="Runs">
        <p className="quiet">A run is one repetition in a fresh process; the first run starts cold.</p>
        <Runs full={full} metrics={headline.slice(0, 3)} />
      </Card>
    </>
  )
}

const number = (header: string, pick: (one: Statistics) => number | null) => ({
  id: header,
  header,
  meta: { right: true },
  accessorFn: ({ stats }: Metric) => pick(stats),
  cell: ({ row }: { row: { original: Metric } }) => shownAs(row.original.stats, pick(row.original.stats)),
})

/** A percentile with its interval below, where the samples reach far enough to give one. */
const tail = (header: string, key: 'p90' | 'p95' | 'p99' | 'p99_9') => ({
  id: header,
  header,
  meta: { right: true },
  accessorFn: ({ stats }: Metric) => stats[key],
  cell: ({ row: { original } }: { row: { original: Metric } }) => {
    const { stats } = original
    const interval = stats.tails?.[key]
    return (
      <>
        {shownAs(stats, stats[key])}
        {interval && (
          <div className="quiet">
            [{shownAs(stats, interval.low)}, {shownAs(stats, interval.high)}]
          </div>
        )}
      </>
    )
  },
})

function shownAs(stats: Statistics, value: number | null): string {
  return show(value, decimalsFor(stats.median, halfWidth(stats.interval)))
}

const COLUMNS = [
  { id: 'metric', header: 'metric', accessorFn: (one: Metric) => one.name },
  {
    id: 'median',
    header: 'median [interval]',
    accessorFn: (one: Metric) => one.stats.median,
    cell: ({ row: { original } }: { row: { original: Metric } }) => (
      <Measured
        value={original.stats.median}
        unit={original.stats.unit}
        interval={original.stats.interval}
        better={original.stats.better}
        runs={original.stats.runs}
      />
    ),
  },
  {
    id: '±',
    header: '±',
    meta: { right: true },
    accessorFn: (one: Metric) => relative(one.stats),
    cell: ({ row }: { row: { original: Metric } }) => spread(row.original.stats),
  },
  number('mean', (one) => one.mean),
  number('std', (one) => one.std),
  number('min', (one) => one.min),
  tail('p90', 'p90'),
  tail('p95', 'p95'),
  tail('p99', 'p99'),
  tail('p99.9', 'p99_9'),
  number('max', (one) => one.max),
  {
    id: 'count',
    header: 'runs × samples',
    meta: { right: true },
    accessorFn: ({ stats }: Metric) => stats.count,
    cell: ({ row }: { row: { original: Metric } }) =>
      `${row.original.stats.runs} × ${row.original.stats.count.toLocaleString('en-US')}`,
  },
  { id: 'outliers', header: 'outliers', meta: { right: true }, accessorFn: ({ stats }: Metric) => stats.outlier_count },
]

function relative(stats: Statistics): number | null {
  const half = halfWidth(stats.interval)
  return half === null || stats.median === 0 ? null : half / Math.abs(stats.median)
}

function spread(stats: Statistics): string {
  const share = relative(stats)
  return share === null ? '–' : `±${percent(share)}`
}

function Metrics({ full, headline }: { full: Full; headline: string[] }) {
  const all = full.result.metrics
  const names = [...new Set([...headline, ...Object.keys(all)])]
  const rows = names.flatMap((name) => (all[name] ? [{ name, stats: all[name] }] : []))
  if (rows.length === 0) return <Empty title="No run has given a number yet." />
  return (
    <div className="dense">
      <Table label="Every metric" rows={rows} columns={COLUMNS} keyOf={(one) => one.name} />
    </div>
  )
}

function Absent({ full }: { full: Full }) {
  const found = full.result.runs.flatMap((run) => Object.entries(run.absent ?? {}))
  const missing = [...new Map(found)].filter(([name]) => !(name in full.result.metrics))
  if (missing.length === 0) return null
  return (
    <>
      <h3>Not measured, and why</h3>
      <ul className="plain-list">
        {missing.map(([name, why]) => (
          <li key={name}>
            <code>{name}</code>: {why}
          </li>
        ))}
      </ul>
    </>
  )
}
