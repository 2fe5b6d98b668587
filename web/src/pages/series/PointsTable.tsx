import { Link } from '@tanstack/react-router'
import { createColumnHelper } from '@tanstack/react-table'
import { useMemo } from 'react'
import { WIDE } from '@/pages/series/trend'
import { Verdict } from '@/parts/Mark'
import { Measured } from '@/parts/Measured'
import { Table } from '@/parts/Table'
import type { Point, SeriesRecord } from '@/watching/types'
import { moment, valueWords } from '@/watching/words'

const column = createColumnHelper<Point>()

/** The interval of one result, from the spread between its runs. */
export function intervalOf(point: Point): { low: number; high: number } | null {
  if (point.value === null || typeof point.standard_error !== 'number') return null
  return { low: point.value - WIDE * point.standard_error, high: point.value + WIDE * point.standard_error }
}

/** The results of a series, the newest first. */
export function PointsTable({ series, points }: { series: SeriesRecord; points: readonly Point[] }) {
  const rows = useMemo(() => [...points].reverse(), [points])
  const columns = useMemo(
    () => [
      column.accessor('at', {
        header: 'Time (UTC)',
        cell: (one) => <span className="nowrap">{moment(one.getValue())}</span>,
      }),
      column.accessor('value', {
        header: 'Value',
        meta: { right: true },
        cell: (one) => <Measured value={one.getValue()} unit={series.unit} interval={intervalOf(one.row.original)} />,
      }),
      column.accessor('verdict', {
        header: 'Verdict',
        cell: (one) =>
          one.getValue() ? <Verdict verdict={one.getValue()} /> : <span className="quiet">imported</span>,
      }),
      column.accessor((one) => valueWords(one.context?.machine ?? ''), { id: 'machine', header: 'Machine' }),
      column.accessor((one) => valueWords(one.context?.commit ?? ''), {
        id: 'commit',
        header: 'Commit',
        cell: (one) => <span className="mono">{one.getValue()}</span>,
      }),
      column.accessor('job', { header: 'Job', cell: (one) => <JobLink job={one.getValue()} /> }),
    ],
    [series.unit],
  )
  return <Table label="Results of the series" rows={rows} columns={columns} keyOf={(one) => String(one.id)} />
}

export function JobLink({ job }: { job: string | null | undefined }) {
  return job ? (
    <Link to="/jobs/$job" params={{ job }} className="mono">
      {job}
    </Link>
  ) : (
    <span className="quiet">none kept</span>
  )
}
