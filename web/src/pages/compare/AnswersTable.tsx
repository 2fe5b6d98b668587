import { Link } from '@tanstack/react-router'
import type { ColumnDef } from '@tanstack/react-table'
import { useMemo } from 'react'
import { type Choices, useSorting } from '@/app/choices'
import { ChangeBar } from '@/pages/compare/ChangeBar'
import { MetricChoice } from '@/pages/compare/MetricChoice'
import { ANSWERS, type Cell, type Comparison, changeOf, type Row, type Side, wordOf } from '@/pages/compare/records'
import { Empty } from '@/parts/Empty'
import { Field } from '@/parts/Field'
import { Answer, Verdict } from '@/parts/Mark'
import { Measured } from '@/parts/Measured'
import { percent } from '@/parts/numbers'
import { Table } from '@/parts/Table'

/** One row per job and metric, one column per side: value, change, and one of three answers with its reason. */
export function AnswersTable({ found, choices }: { found: Comparison; choices: Choices }) {
  const order = useSorting(choices)
  const rows = fitting(found.rows, choices.text('answer'))
  const columns = useMemo(() => columnsOf(found), [found])
  return (
    <>
      <div className="filters">
        <MetricChoice found={found} choices={choices} some="the headline ones" />
        <AnswerChoice choices={choices} />
      </div>
      {rows.length === 0 ? (
        <Empty title="No row fits these choices." />
      ) : (
        <div className="card">
          <Table label="Comparison" rows={rows} columns={columns} keyOf={keyOf} {...order} />
        </div>
      )}
    </>
  )
}

/** The rows in which some side has the answer that is asked for. */
export function fitting(rows: Row[], answer: string): Row[] {
  return answer === '' ? rows : rows.filter((row) => row.cells.some((cell) => wordOf(cell) === answer))
}

function AnswerChoice({ choices }: { choices: Choices }) {
  return (
    <Field label="Answer">
      {(id) => (
        <select
          id={id}
          value={choices.text('answer')}
          onChange={(event) => choices.choose({ answer: event.target.value })}
        >
          <option value="">any</option>
          {ANSWERS.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      )}
    </Field>
  )
}

export const keyOf = (row: Row) => `${row.benchmark}|${row.label}|${row.metric}`

// Longer intervals are cut at the ends of the drawing: one wild row must not flatten all the others.
const LONGEST_DRAWN = 1

/** The largest change that is drawn, with its interval: the same scale in every row. */
export function scaleOf(rows: Row[]): number {
  const ends = rows.flatMap((row) =>
    row.cells.flatMap((cell) => (cell.change ? [Math.abs(cell.change.low), Math.abs(cell.change.high)] : [])),
  )
  return Math.min(Math.max(0.01, ...ends), LONGEST_DRAWN)
}

function columnsOf(found: Comparison): ColumnDef<Row, unknown>[] {
  const several = new Set(found.rows.map((row) => row.benchmark)).size > 1
  const most = scaleOf(found.rows)
  const benchmark: ColumnDef<Row, unknown> = {
    id: 'benchmark',
    header: 'Benchmark',
    accessorFn: (row) => row.benchmark,
    cell: ({ row }) => <div className="row-name">{row.original.benchmark}</div>,
  }
  return [
    ...(several ? [benchmark] : []),
    {
      id: 'job',
      header: 'Job',
      accessorFn: (row) => row.label,
      cell: ({ row }) => (
        <div className="row-name">{row.original.label || <span className="quiet">the only one</span>}</div>
      ),
    },
    {
      id: 'metric',
      header: 'Metric',
      accessorFn: (row) => row.metric,
      cell: ({ row }) => <Metric row={row.original} />,
    },
    ...found.sides.map((side, at) => sideColumn(side, at, most)),
  ]
}

function Metric({ row }: { row: Row }) {
  return (
    <span className="nowrap">
      {row.metric}
      <br />
      <span className="quiet">{row.better ? `${row.better} is better` : 'no direction'}</span>
    </span>
  )
}

function sideColumn(side: Side, at: number, most: number): ColumnDef<Row, unknown> {
  const cellOf = (row: Row) => row.cells.find((cell) => cell.side === side.key)
  return {
    id: `side-${at}`,
    header: () => (
      <span className="side-head">
        {side.name}
        {at === 0 && ' (the base)'}
      </span>
    ),
    accessorFn: (row) => {
      const cell = cellOf(row)
      return cell ? ((at === 0 ? cell.metric?.median : changeOf(row, cell)) ?? undefined) : undefined
    },
    sortUndefined: 'last',
    cell: ({ row }) => <SideCell row={row.original} cell={cellOf(row.original)} most={most} />,
  }
}

function SideCell({ row, cell, most }: { row: Row; cell: Cell | undefined; most: number }) {
  if (!cell?.metric) return <span className="quiet">{cell?.because.join('; ') || 'not measured'}</span>
  const value = (
    <Measured value={cell.metric.median} unit={row.unit} interval={cell.metric.interval} runs={cell.metric.runs} />
  )
  return (
    <div className="side-cell">
      <div>
        {cell.job ? (
          <Link className="value" to="/jobs/$job" params={{ job: cell.job }}>
            {value}
          </Link>
        ) : (
          value
        )}
      </div>
      {cell.verdict && cell.verdict !== 'valid' && (
        <div>
          <Verdict verdict={cell.verdict} />
        </div>
      )}
      {cell.answer && cell.answer !== 'base' && <Judged row={row} cell={cell} answer={cell.answer} most={most} />}
    </div>
  )
}

function Judged({ row, cell, answer, most }: { row: Row; cell: Cell; answer: string; most: number }) {
  const change = changeOf(row, cell)
  const doubt = cell.change
    ? `[${percent(cell.change.low, true)}, ${percent(cell.change.high, true)}]`
    : '(no interval)'
  return (
    <>
      <div className="judged">
        {change !== null && <ChangeBar change={change} interval={cell.change} answer={answer} most={most} />}
        <Answer answer={wordOf(cell) ?? answer} />
        {change !== null && (
          <span className="number">
            {percent(change, true)} <span className="quiet">{doubt}</span>
          </span>
        )}
      </div>
      {cell.because.length > 0 && (
        <details className="because">
          <summary>why</summary>
          {cell.because.map((one) => (
            <div key={one}>{one}</div>
          ))}
        </details>
      )}
    </>
  )
}
