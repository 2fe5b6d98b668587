import { decimalsFor, halfWidth, percent, show } from '@/parts/numbers'
import type { Finding, SeriesRecord } from '@/watching/types'

/** Series and changes in words; the same as assay's commands write them. */

const COUNTED_UNTIL = 86_400 * 365

/** Whether times are only counted (nights, builds) and no moments. */
export function isCounted(at: number): boolean {
  return Math.abs(at) < COUNTED_UNTIL
}

/** A moment as people write it, in UTC: `2026-03-04 03:00`; a time that is only counted as its number. */
export function moment(at: number): string {
  return isCounted(at) ? String(at) : new Date(at * 1000).toISOString().slice(0, 16).replace('T', ' ')
}

/** The same with its zone, for a sentence. */
export function momentUtc(at: number): string {
  return isCounted(at) ? String(at) : `${moment(at)} UTC`
}

export function date(at: number): string {
  return isCounted(at) ? String(at) : new Date(at * 1000).toISOString().slice(0, 10)
}

/** Any value of a document in a few words. */
export function valueWords(value: unknown): string {
  if (value === null || value === undefined) return 'none'
  if (typeof value === 'string') return /^[0-9a-f]{20,}$/.test(value) ? value.slice(0, 12) : value
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** The point of a matrix: `batch=8 threads=2`; a path is cut to its last part where that is enough. */
export function pointWords(point: Record<string, unknown> = {}): string {
  const paths = Object.keys(point)
  const last = (path: string) => path.split('.').at(-1) ?? path
  const short = (path: string) => (paths.filter((one) => last(one) === last(path)).length === 1 ? last(path) : path)
  return paths.map((path) => `${short(path)}=${valueWords(point[path])}`).join(' ')
}

/** `latency_ms of image classifier, batch=8, team=vision`. */
export function seriesName(series: SeriesRecord): string {
  if (series.origin === 'import') return series.benchmark
  return [`${series.metric} of ${series.benchmark}`, pointWords(series.point), pointWords(series.labels)]
    .filter(Boolean)
    .join(', ')
}

/** The same without its labels, for a title. */
export function seriesTitle(series: SeriesRecord): string {
  return seriesName({ ...series, labels: {} })
}

/** The kind of machine: `Intel Xeon Platinum 8468 · 32 cores · 256 GiB · NVIDIA H100 · Linux`. */
export function machineWords(machine: Record<string, unknown> = {}): string {
  const text = (key: string) => (machine[key] ? String(machine[key]) : '')
  const gpus = typeof machine.gpus === 'number' && machine.gpus > 1 ? `${machine.gpus} × ` : ''
  const parts = [
    text('processor'),
    text('cores') && `${text('cores')} cores`,
    text('limit_cpus') && `held to ${text('limit_cpus')} of them`,
    text('memory_gib') && `${text('memory_gib')} GiB`,
    text('gpu') && `${gpus}${text('gpu')}`,
    text('os'),
  ]
  return parts.filter(Boolean).join(' · ')
}

/** The part of a machine that matters most: its GPUs, else its processor. */
export function machineShort(machine: Record<string, unknown> = {}): string {
  const gpus = typeof machine.gpus === 'number' && machine.gpus > 1 ? `${machine.gpus} × ` : ''
  return machine.gpu ? `${gpus}${String(machine.gpu)}` : String(machine.processor ?? '')
}

/** A level with as many digits as its doubt allows. */
export function levelWords(value: number, doubt: { low: number; high: number }, unit: string): string {
  return `${show(value, decimalsFor(value, halfWidth(doubt)))} ${unit}`.trim()
}

/** The answer of a finding: a new change that may still be chance is unconfirmed, with how many results it has of those it needs. */
export function answerWords({ answer, unconfirmed }: Finding): string {
  return unconfirmed ? `new, unconfirmed (${unconfirmed.results} of ${unconfirmed.needed})` : answer
}

/** How much a series changed, with its interval: `+5.2 % [+4.1 %, +6.3 %]`. */
export function changeWords(finding: Finding, unit: string): string {
  if (finding.change !== null && finding.interval !== null) {
    return `${percent(finding.change, true)} [${percent(finding.interval.low, true)}, ${percent(finding.interval.high, true)}]`
  }
  const ends = finding.difference_interval
  const places = decimalsFor(finding.difference, halfWidth(ends))
  return `${signed(finding.difference, places)} [${signed(ends.low, places)}, ${signed(ends.high, places)}] ${unit}`.trim()
}

function signed(value: number, places: number): string {
  return `${value > 0 ? '+' : ''}${show(value, places)}`
}

const LOOKS: Record<string, string> = {
  'too short': 'too few results',
  constant: 'always the same',
  steady: 'steady',
  noisy: 'noisy',
  stepped: 'changed in steps',
  drifting: 'drifts',
}

/** How a series looked when it was last checked. */
export function looksWords(series: SeriesRecord): string {
  const kind = series.report?.kind
  return typeof kind === 'string' ? (LOOKS[kind] ?? kind) : 'not checked yet'
}

export function spreadWords(series: SeriesRecord): string {
  const spread = numberIn(series.report, 'relative_spread')
  return spread === null ? '–' : `±${percent(spread)}`
}

/** `1 result`, `12 results`. */
export function count(number: number, thing: string): string {
  return `${number.toLocaleString('en-US')} ${thing}${number === 1 ? '' : 's'}`
}

/** A number of a document; null where it has none of that name. */
export function numberIn(document: Record<string, unknown> | undefined, key: string): number | null {
  const found = document?.[key]
  return typeof found === 'number' ? found : null
}

/** A reason as a whole sentence. */
export function sentence(text: string): string {
  const whole = `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`
  return /[.!?]$/.test(whole) ? whole : `${whole}.`
}
