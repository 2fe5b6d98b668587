import { type Cell, type Comparison, changeOf, type Row } from '@/pages/compare/records'
import { percent, show } from '@/parts/numbers'

/** One field of the heat map. */
export interface Field {
  row: number
  column: number
  text: string
  detail: string
  answer: string
  /** From 0 to 1: how large the change is beside the largest one. */
  strength: number
  job: string | null
  change: number | null
}

export interface HeatMap {
  rows: string[]
  columns: string[]
  fields: Field[]
}

const SIGNS: Record<string, string> = { better: '▲', worse: '▼', 'cannot tell': '◆', base: '=' }

/** What rows and columns can stand for: the sides, the jobs, and every axis of the matrix that varies. */
export function axesOf(found: Comparison): string[] {
  const paths = [...new Set(found.rows.flatMap((row) => Object.keys(row.point)))]
  const varying = paths.filter((path) => new Set(found.rows.map((row) => shown(row.point[path]))).size > 1)
  const several = new Set(found.rows.map((row) => row.benchmark)).size > 1
  return ['side', 'job', ...(several ? ['benchmark'] : []), ...varying]
}

export function shown(value: unknown): string {
  if (value === undefined || value === null) return '–'
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function namedBy(found: Comparison, row: Row, cell: Cell, axis: string): string {
  if (axis === 'side') return found.sides.find((side) => side.key === cell.side)?.name ?? cell.side
  if (axis === 'job') return row.label || row.benchmark
  if (axis === 'benchmark') return row.benchmark
  return shown(row.point[axis])
}

/** The cells of one metric, laid out by two axes. Where several fall on one field it says so and shows none of them. */
export function layOut(found: Comparison, metric: string, rows: string, columns: string): HeatMap {
  const cells = found.rows
    .filter((row) => row.metric === metric)
    .flatMap((row) =>
      row.cells.map((cell) => ({
        row,
        cell,
        at: [namedBy(found, row, cell, rows), namedBy(found, row, cell, columns)] as const,
      })),
    )
    // The base says nothing about a change: it is drawn where it has a column or row of its own.
    .filter(({ cell }) => cell.answer !== 'base' || rows === 'side' || columns === 'side')
  const rowNames = [...new Set(cells.map(({ at }) => at[0]))]
  const columnNames = [...new Set(cells.map(({ at }) => at[1]))]
  const most = Math.max(0, ...cells.map(({ row, cell }) => Math.abs(changeOf(row, cell) ?? 0)))
  const fields = new Map<string, typeof cells>()
  for (const one of cells) fields.set(JSON.stringify(one.at), [...(fields.get(JSON.stringify(one.at)) ?? []), one])
  return {
    rows: rowNames,
    columns: columnNames,
    fields: [...fields.values()].flatMap((group) => {
      const [first] = group
      if (first === undefined) return []
      const place = { row: rowNames.indexOf(first.at[0]), column: columnNames.indexOf(first.at[1]) }
      return [{ ...place, ...(group.length > 1 ? crowded(group.length) : one(first.row, first.cell, most)) }]
    }),
  }
}

type Content = Omit<Field, 'row' | 'column'>

function crowded(count: number): Content {
  return {
    text: `${count} results`,
    detail: `${count} results fall here: choose other rows or columns`,
    answer: '',
    strength: 0,
    job: null,
    change: null,
  }
}

function one(row: Row, cell: Cell, most: number): Content {
  const change = changeOf(row, cell)
  const answer = cell.answer ?? ''
  const value = cell.metric ? `${show(cell.metric.median)} ${row.unit}` : 'not measured'
  const doubt = cell.change ? ` [${percent(cell.change.low, true)}, ${percent(cell.change.high, true)}]` : ''
  const text = change === null || answer === 'base' ? value : `${SIGNS[answer] ?? ''} ${percent(change, true)}`
  return {
    text: cell.metric ? text : '–',
    detail: [
      `${row.label || row.benchmark}: ${value}`,
      ...(answer
        ? [`${answer}${change === null || answer === 'base' ? '' : ` ${percent(change, true)}${doubt}`}`]
        : []),
      ...cell.because,
    ].join('\n'),
    answer: cell.metric ? answer : '',
    strength: change === null || most === 0 ? 0 : Math.abs(change) / most,
    job: cell.job ?? null,
    change: answer === 'base' ? null : change,
  }
}
