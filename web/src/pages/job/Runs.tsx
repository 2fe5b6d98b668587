import type { ColumnDef } from '@tanstack/react-table'
import type { Api } from '@/api/client'
import { evidenceOf, type Full, plain } from '@/pages/job/words'
import { Download } from '@/parts/Download'
import { Empty } from '@/parts/Empty'
import { Mark } from '@/parts/Mark'
import { decimalsFor, halfWidth, percent, show } from '@/parts/numbers'
import { Table } from '@/parts/Table'
import { duration } from '@/parts/Time'

type Run = Api<'SingleRunResult'>
type Column = ColumnDef<Run, unknown>

/** One line per run: how long its phases took, what it ran on, how it ended, and its samples. */
export function Runs({ full, metrics }: { full: Full; metrics: string[] }) {
  const { runs } = full.result
  if (runs.length === 0) return <Empty title="No run has ended yet." />
  const broken = runs.filter((run) => run.error)
  return (
    <>
      <div className="dense">
        <Table label="Every run" rows={runs} columns={columnsOf(full, metrics)} keyOf={(run) => String(run.run_id)} />
      </div>
      {broken.map((run) => (
        <Broken key={run.run_id} run={run} />
      ))}
    </>
  )
}

function columnsOf(full: Full, metrics: string[]): Column[] {
  const right = { right: true }
  const phase = (name: string, header: string): Column => ({
    id: name,
    header,
    meta: right,
    accessorFn: (run) => run.phases?.[name] ?? null,
    cell: ({ row }) => seconds(row.original.phases?.[name]),
  })
  return [
    { id: 'run', header: 'run', accessorFn: (run) => run.run_id + 1 },
    { id: 'start', header: 'start', accessorFn: (run) => (run.is_cold_start ? 'cold' : 'fresh') },
    {
      id: 'took',
      header: 'took',
      meta: right,
      accessorFn: (run) => run.duration_seconds,
      cell: ({ row }) => duration(row.original.duration_seconds),
    },
    phase('load', 'load'),
    phase('warmup', 'warm-up'),
    phase('measure', 'measure'),
    ...metrics.map((name) => medianColumn(full, name)),
    { id: 'device', header: 'device used', accessorFn: (run) => run.device?.used ?? '–' },
    {
      id: 'others',
      header: 'other programs',
      meta: right,
      accessorFn: othersShare,
      cell: ({ row }) => othersText(row.original),
    },
    {
      id: 'outcome',
      header: 'outcome',
      accessorFn: (run) => (run.error ? 'failed' : 'ok'),
      cell: ({ row }) => <Outcome run={row.original} />,
    },
    {
      id: 'samples',
      header: 'samples',
      enableSorting: false,
      cell: ({ row }) => <Samples job={full.summary.id} run={row.original} />,
    },
  ]
}

function seconds(took: number | undefined): string {
  return took === undefined ? '–' : duration(took)
}

function medianColumn(full: Full, name: string): Column {
  const stats = full.result.metrics[name]
  const places = stats ? decimalsFor(stats.median, halfWidth(stats.interval)) : undefined
  return {
    id: name,
    header: stats?.unit ? `${name} (${stats.unit})` : name,
    meta: { right: true },
    accessorFn: (run) => stats?.run_values[run.run_id] ?? null,
    cell: ({ row }) => show(stats?.run_values[row.original.run_id], places),
  }
}

/** How much of the machine's processor time other programs took while the clock ran; null where it is not known. */
export function othersShare(run: Run): number | null {
  const window = run.window
  if (!window || window.others_cpu_s === null || window.wall_s <= 0 || window.cores === 0) return null
  return window.others_cpu_s / (window.wall_s * window.cores)
}

function othersText(run: Run): string {
  const share = othersShare(run)
  return share === null ? '–' : percent(share)
}

function Outcome({ run }: { run: Run }) {
  return run.error ? (
    <Mark tone="bad" glyph="✕" word={`failed: ${run.error.code}`} />
  ) : (
    <Mark tone="good" glyph="✓" word="ok" />
  )
}

function Samples({ job, run }: { job: string; run: Run }) {
  const most = Math.max(0, ...Object.values(run.sample_counts ?? {}))
  if (!run.samples) return <span className="quiet">none kept</span>
  return (
    <Download
      path={`/api/v1/jobs/${encodeURIComponent(job)}/runs/${run.run_id}/samples`}
      name={`${job}-run-${run.run_id}.parquet`}
    >
      {most.toLocaleString('en-US')} as Parquet<span className="unseen">, samples of run {run.run_id + 1}</span>
    </Download>
  )
}

function Broken({ run }: { run: Run }) {
  if (!run.error) return null
  const { message, log_tail: tail } = run.error
  return (
    <div className="why">
      <p>
        <strong>
          Run {run.run_id + 1} failed: {message}
        </strong>{' '}
        <span className="quiet">{evidenceOf(run.error)}</span>
      </p>
      {tail.length > 0 && <pre>{plain(tail.join('\n'))}</pre>}
    </div>
  )
}
