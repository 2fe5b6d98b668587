import { Link } from '@tanstack/react-router'
import type { ColumnDef } from '@tanstack/react-table'
import type { Api } from '@/api/client'
import { Sparkline } from '@/pages/benchmarks/Sparkline'
import { Verdict } from '@/parts/Mark'
import { Measured } from '@/parts/Measured'
import { Table } from '@/parts/Table'
import { Ago } from '@/parts/Time'

export interface BenchmarkRow {
  benchmark: Api<'BenchmarkSummary'>
  headline: Api<'Headline'> | undefined
  /** Some headlines are still awaited. */
  isPending: boolean
}

export function BenchmarksTable({ rows, onEnd }: { rows: BenchmarkRow[]; onEnd: () => void }) {
  return <Table label="Benchmarks" rows={rows} columns={COLUMNS} keyOf={(row) => row.benchmark.name} onEnd={onEnd} />
}

const LINES: ColumnDef<BenchmarkRow>[] = [
  {
    header: 'Benchmark',
    cell: ({
      row: {
        original: { benchmark },
      },
    }) => (
      <Link to="/benchmarks/$benchmark" params={{ benchmark: benchmark.name }}>
        {benchmark.name}
      </Link>
    ),
  },
  { header: 'Headline metric', cell: ({ row: { original } }) => <Metric {...original} /> },
  {
    header: 'Last results',
    cell: ({
      row: {
        original: { headline },
      },
    }) => (headline ? <Sparkline headline={headline} /> : null),
  },
  {
    header: 'Newest',
    meta: { right: true },
    cell: ({
      row: {
        original: { headline },
      },
    }) => (headline ? <Newest headline={headline} /> : null),
  },
  {
    header: 'Verdict',
    cell: ({
      row: {
        original: { headline },
      },
    }) => (headline ? <Verdict verdict={headline.verdict} /> : null),
  },
  {
    header: 'Version',
    meta: { right: true },
    cell: ({
      row: {
        original: { benchmark },
      },
    }) => benchmark.version,
  },
  {
    header: 'Changed',
    cell: ({
      row: {
        original: { benchmark },
      },
    }) => <Ago at={benchmark.changed_at} />,
  },
]
const COLUMNS = LINES.map((column) => ({ ...column, enableSorting: false }))

function Metric({ headline, isPending }: BenchmarkRow) {
  if (!headline) return <span className="quiet">{isPending ? 'reading…' : 'not measured yet'}</span>
  return (
    <>
      <Link to="/series/$series" params={{ series: headline.series }}>
        {headline.metric}
      </Link>
      {headline.label && <span className="quiet small-print"> {headline.label}</span>}
    </>
  )
}

function Newest({ headline: { median, unit, interval, better } }: { headline: Api<'Headline'> }) {
  return <Measured value={median} unit={unit} interval={interval} better={better} />
}
