import type { Api } from '@/api/client'
import { type Figure, figuresOf, sentencesOf } from '@/pages/job/readings'
import { Card } from '@/parts/Card'
import { show } from '@/parts/numbers'
import { Table } from '@/parts/Table'

type Run = Api<'SingleRunResult'>

interface Used {
  run: number
  source: string
  scope: string
  joules: number
  low: number | null
  high: number | null
  watts: number | null
  idle: number | null
  grade: string
}

const GRADES: Record<string, string> = {
  counter: 'counter: read at both ends',
  sampled: 'sampled: summed from readings of the power',
  estimated: 'estimated',
}

const numberCell =
  (pick: (one: Used) => number | null) =>
  ({ row }: { row: { original: Used } }) =>
    show(pick(row.original))
const ENERGY = [
  { id: 'run', header: 'run', accessorFn: (one: Used) => one.run },
  { id: 'source', header: 'read from', accessorFn: (one: Used) => one.source },
  { id: 'scope', header: 'of', accessorFn: (one: Used) => one.scope },
  {
    id: 'joules',
    header: 'energy (J)',
    meta: { right: true },
    accessorFn: (one: Used) => one.joules,
    cell: numberCell((one) => one.joules),
  },
  {
    id: 'between',
    header: 'known between (J)',
    meta: { right: true },
    accessorFn: (one: Used) => one.low,
    cell: ({ row: { original: one } }: { row: { original: Used } }) =>
      one.low === null || one.high === null ? '–' : `${show(one.low)} to ${show(one.high)}`,
  },
  {
    id: 'watts',
    header: 'mean power (W)',
    meta: { right: true },
    accessorFn: (one: Used) => one.watts,
    cell: numberCell((one) => one.watts),
  },
  {
    id: 'idle',
    header: 'idle before (W)',
    meta: { right: true },
    accessorFn: (one: Used) => one.idle,
    cell: numberCell((one) => one.idle),
  },
  { id: 'grade', header: 'grade', accessorFn: (one: Used) => GRADES[one.grade] ?? one.grade },
]

/** What each run used, with how far the figure can be believed; why there is none, where there is none. */
export function Energy({ runs }: { runs: Run[] }) {
  const rows: Used[] = runs.flatMap((run) =>
    (run.seen?.energy ?? []).map((one) => ({
      run: run.run_id + 1,
      source: one.source,
      scope: one.scope,
      joules: one.joules,
      low: one.low_j ?? null,
      high: one.high_j ?? null,
      grade: one.grade,
      idle: one.idle_w ?? null,
      watts: one.seconds > 0 ? one.joules / one.seconds : null,
    })),
  )
  const why = runs.flatMap((run) => run.seen?.absent?.energy ?? run.absent?.energy_j ?? [])[0]
  return (
    <Card title="Energy">
      {rows.length > 0 ? (
        <Table
          label="Energy of each run"
          rows={rows}
          columns={ENERGY}
          keyOf={(one) => `${one.run} ${one.source} ${one.scope}`}
        />
      ) : (
        <p className="quiet">Not measured{why ? `: ${why}` : ': no run says that its energy was read'}.</p>
      )}
    </Card>
  )
}

const figureCell = (key: 'mean' | 'low' | 'high', header: string) => ({
  id: key,
  header,
  meta: { right: true },
  accessorFn: (one: Figure) => one[key],
  cell: ({ row: { original } }: { row: { original: Figure } }) => `${show(original[key])} ${original.unit}`,
})
const FIGURES = [
  { id: 'whose', header: 'of', accessorFn: (one: Figure) => one.whose },
  { id: 'what', header: 'what', accessorFn: (one: Figure) => one.what },
  figureCell('mean', 'mean of the runs'),
  figureCell('low', 'lowest'),
  figureCell('high', 'highest'),
  { id: 'runs', header: 'runs', meta: { right: true }, accessorFn: (one: Figure) => one.runs },
]

/** What another process saw of the runs over their measured windows, and what it could not see. */
export function Watched({ runs }: { runs: Run[] }) {
  const seen = runs.flatMap((run) => (run.seen ? [{ run: run.run_id, seen: run.seen }] : []))
  const unseen = seen.flatMap(({ seen: one }) =>
    Object.entries(one.absent ?? {}).map(([what, why]) => `Not recorded: ${what} (${why}).`),
  )
  return (
    <Card title="Seen over the measured window">
      {seen.length === 0 && <p className="quiet">No telemetry was recorded.</p>}
      <Sentences lines={seen.flatMap(({ run, seen: one }) => sentencesOf(run, one))} />
      {seen.length > 0 && (
        <Table
          label="Readings"
          rows={figuresOf(seen.map((one) => one.seen))}
          columns={FIGURES}
          keyOf={(one) => one.series}
        />
      )}
      <Sentences lines={[...new Set(unseen)]} />
    </Card>
  )
}

function Sentences({ lines }: { lines: string[] }) {
  return lines.length === 0 ? null : (
    <ul className="plain-list">
      {lines.map((one) => (
        <li key={one}>{one}</li>
      ))}
    </ul>
  )
}
