import type { Api } from '@/api/client'
import { valueText } from '@/pages/campaigns/words'

type Job = Pick<Api<'JobSummary'>, 'id' | 'label' | 'point'>

/** One axis of the matrix: its path, a short name, and its values in the order in which they come. */
export interface Axis {
  path: string
  name: string
  values: string[]
}

/** Jobs laid out by two axes; there is one sheet for each combination of the others. */
export interface Sheet<Of> {
  title: string
  rows: string[]
  columns: string[]
  at: (row: string, column: string) => Of[]
}

/** What stands for `no axis` in the address. */
export const NONE = 'none'
/** The axis that every job has of its own. */
export const EACH = 'job'

export function axesOf(jobs: readonly Job[]): Axis[] {
  const paths = [...new Set(jobs.flatMap((job) => Object.keys(job.point)))]
  const names = shortNames(paths)
  return paths.map((path) => ({
    path,
    name: names.get(path) ?? path,
    values: [...new Set(jobs.map((job) => valueText(job.point[path])))],
  }))
}

/** The last part of each path, or all of it where that would not tell paths apart. */
export function shortNames(paths: readonly string[]): Map<string, string> {
  const last = (path: string) => path.slice(path.lastIndexOf('.') + 1)
  const lasts = paths.map(last)
  return new Map(paths.map((path) => [path, lasts.filter((one) => one === last(path)).length > 1 ? path : last(path)]))
}

/** Values without the folders that lead to them, where that still tells them apart. */
export function shortValues(values: readonly string[]): Map<string, string> {
  const last = (value: string) => (/^[^\s{[]*\/[^\s/]+$/.test(value) ? value.slice(value.lastIndexOf('/') + 1) : value)
  const short = values.map(last)
  const distinct = new Set(short).size === values.length
  return new Map(values.map((value) => [value, distinct ? last(value) : value]))
}

/** The axes to begin with: those that tell jobs apart, the longer one down the page. */
export function defaultAxes(axes: readonly Axis[]): { rows: string; columns: string } {
  const [first, second] = axes.filter((axis) => axis.values.length > 1)
  if (first === undefined) return { rows: EACH, columns: NONE }
  if (second === undefined) return { rows: first.path, columns: NONE }
  return first.values.length >= second.values.length
    ? { rows: first.path, columns: second.path }
    : { rows: second.path, columns: first.path }
}

/** What stands down and across: as the address asks where that is possible, else as it is best begun. */
export function chosenAxes(
  axes: readonly Axis[],
  wanted: { rows: string; columns: string },
): { rows: string; columns: string } {
  const paths = axes.map((axis) => axis.path)
  const start = defaultAxes(axes)
  const rows = wanted.rows === EACH || paths.includes(wanted.rows) ? wanted.rows : start.rows
  if (rows === EACH) return { rows, columns: NONE }
  if (wanted.columns === NONE || (paths.includes(wanted.columns) && wanted.columns !== rows))
    return { rows, columns: wanted.columns }
  return { rows, columns: axes.find((axis) => axis.path !== rows && axis.values.length > 1)?.path ?? NONE }
}

export function sheetsOf<Of extends Job>(
  jobs: readonly Of[],
  axes: readonly Axis[],
  rows: string,
  columns: string,
): Sheet<Of>[] {
  const others =
    rows === EACH ? [] : axes.filter((axis) => axis.path !== rows && axis.path !== columns && axis.values.length > 1)
  const groups = new Map<string, Of[]>()
  for (const job of jobs) {
    const title = others.map((axis) => `${axis.name} = ${valueText(job.point[axis.path])}`).join(', ')
    const group = groups.get(title)
    if (group) group.push(job)
    else groups.set(title, [job])
  }
  return [...groups].map(([title, members]) => sheetOf(title, members, rows, columns))
}

function sheetOf<Of extends Job>(title: string, jobs: readonly Of[], rows: string, columns: string): Sheet<Of> {
  const cells = new Map<string, Of[]>()
  const key = (row: string, column: string) => JSON.stringify([row, column])
  for (const job of jobs) {
    const at = key(valueOn(job, rows), valueOn(job, columns))
    const cell = cells.get(at)
    if (cell) cell.push(job)
    else cells.set(at, [job])
  }
  return {
    title,
    rows: [...new Set(jobs.map((job) => valueOn(job, rows)))],
    columns: [...new Set(jobs.map((job) => valueOn(job, columns)))],
    at: (row, column) => cells.get(key(row, column)) ?? [],
  }
}

function valueOn(job: Job, axis: string): string {
  if (axis === NONE) return ''
  return axis === EACH ? job.label || job.id : valueText(job.point[axis])
}
