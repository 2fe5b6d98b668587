import { Link } from '@tanstack/react-router'
import type { ColumnDef } from '@tanstack/react-table'
import { useMemo } from 'react'
import { metricName, type Per, standing } from '@/pages/compare/front'
import { type Frontier, type FrontPoint, letterOf, type Side } from '@/pages/compare/records'
import { Mark, Verdict } from '@/parts/Mark'
import { Measured } from '@/parts/Measured'
import { Table } from '@/parts/Table'

/** The points of a trade-off as a table: both numbers with their intervals, and where each point stands. */
export function FrontTable({ found, sides, per }: { found: Frontier; sides: Side[]; per: Per | undefined }) {
  const columns = useMemo(() => columnsOf(found, sides, per), [found, sides, per])
  return (
    <Table
      label="Points of the trade-off"
      rows={found.points}
      columns={columns}
      keyOf={(point) => `${point.side}|${point.job}`}
    />
  )
}

function columnsOf(found: Frontier, sides: Side[], per: Per | undefined): ColumnDef<FrontPoint, unknown>[] {
  return [
    {
      id: 'job',
      header: 'Job',
      accessorFn: (point) => point.label || point.benchmark,
      cell: ({ row: { original: point } }) => (
        <div className="row-name">
          <Link to="/jobs/$job" params={{ job: point.job }}>
            {point.label || point.benchmark}
          </Link>
        </div>
      ),
    },
    { id: 'side', header: 'Side', accessorFn: (point) => letterOf(sides.findIndex((side) => side.key === point.side)) },
    {
      id: 'machine',
      header: 'Machine',
      accessorFn: (point) => point.machine,
      cell: ({ row }) => <span className="nowrap">{row.original.machine}</span>,
    },
    {
      id: 'x',
      header: found.x.metric,
      accessorFn: (point) => point.x,
      meta: { right: true },
      cell: ({ row: { original: point } }) => (
        <Measured value={point.x} unit={found.x.unit} interval={point.x_interval} />
      ),
    },
    {
      id: 'y',
      header: metricName(found.y, per),
      accessorFn: (point) => point.y,
      meta: { right: true },
      cell: ({ row: { original: point } }) => (
        <>
          <Measured value={point.y} unit={found.y.unit} interval={point.y_interval} />
          {point.grade && <div className="quiet because">{point.grade}</div>}
        </>
      ),
    },
    {
      id: 'verdict',
      header: 'Verdict',
      accessorFn: (point) => point.verdict ?? '',
      cell: ({ row: { original: point } }) => <Verdict verdict={point.verdict} />,
    },
    {
      id: 'front',
      header: 'Front',
      accessorFn: (point) => Number(point.on_front) + Number(point.surely),
      cell: ({ row: { original: point } }) => <Standing point={point} />,
    },
  ]
}

function Standing({ point }: { point: FrontPoint }) {
  if (!point.on_front) return <span className="quiet">{standing(point)}</span>
  return point.surely ? (
    <Mark tone="good" glyph="●" word="on the front" />
  ) : (
    <Mark tone="unknown" glyph="◆" word="cannot tell" square />
  )
}
