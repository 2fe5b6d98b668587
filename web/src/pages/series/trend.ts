import { type Around, changesAround } from '@/pages/series/around'
import { show } from '@/parts/numbers'
import type { KnownFinding, Point, SeriesRecord } from '@/watching/types'
import { answerWords, changeWords, count, date, isCounted, numberIn } from '@/watching/words'

/** 95 % of results lie within this many standard errors, or standard deviations. */
export const WIDE = 1.96
// At each end this many points may lie beyond the axis; they are marked at its edge.
const BEYOND = 0.01
const TICKS = 5

/** A level between two changes, from one moment to another; a drift is a level that slopes. */
export interface Level {
  from: number
  to: number
  first: number
  last: number
}

export interface Trend {
  unit: string
  /** Id of a change → its number on this page. */
  numbers: Map<string, number>
  points: Point[]
  /** Changes that stand, in order of time. */
  turns: KnownFinding[]
  levels: Level[]
  /** Standard deviation of the points around their level. */
  spread: number | null
  around: Around[]
  /** Ends of the axis of values. */
  low: number
  high: number
  step: number
  /** Times are only counted. */
  counted: boolean
}

/** Id of a change → its number, in order of time; what is gone has none. */
export function numbersOf(findings: readonly KnownFinding[]): Map<string, number> {
  return new Map(standing(findings).map((one, at) => [one.id, at + 1]))
}

function standing(findings: readonly KnownFinding[]): KnownFinding[] {
  return findings.filter((one) => one.state !== 'gone').sort((a, b) => a.first_bad.at - b.first_bad.at)
}

/** What is drawn of a series from a moment on. */
export function trendOf(
  series: SeriesRecord,
  all: readonly Point[],
  findings: readonly KnownFinding[],
  begin = Number.NEGATIVE_INFINITY,
): Trend {
  const ids = new Set(all.map((one) => one.id))
  const turns = standing(findings).filter((one) => ids.has(one.first_bad.id))
  const points = all.filter((one) => one.at >= begin)
  const levels = levelsOf(all, turns)
    .filter((one) => one.to >= begin)
    .map((one) => clipped(one, begin))
  const spread = numberIn(series.report, 'spread')
  return {
    unit: series.unit,
    points,
    levels,
    spread,
    numbers: numbersOf(findings),
    turns: turns.filter((one) => one.first_bad.at >= begin),
    around: changesAround(all).filter((one) => one.point.at >= begin),
    ...endsOf(points, levels, spread),
    counted: all.every((one) => isCounted(one.at)),
  }
}

function clipped(level: Level, begin: number): Level {
  if (level.from >= begin) return level
  const share = level.to > level.from ? (begin - level.from) / (level.to - level.from) : 0
  return { ...level, from: begin, first: level.first + share * (level.last - level.first) }
}

/** Where a drift ends; of a step, its first point after. */
export function endOf(turn: KnownFinding, points: readonly Point[]): number {
  if (turn.finding.kind === 'step') return turn.first_bad.at
  const start = points.findIndex((one) => one.id === turn.first_bad.id)
  const length = (turn.finding.range[1] ?? turn.finding.first_bad) - turn.finding.first_bad
  return points[Math.min(points.length - 1, start + Math.max(0, length))]?.at ?? turn.first_bad.at
}

/** The levels between the changes. */
export function levelsOf(points: readonly Point[], turns: readonly KnownFinding[]): Level[] {
  const known = points.flatMap((one) => (one.value === null ? [] : [{ at: one.at, value: one.value }]))
  const [first, last] = [known[0], known.at(-1)]
  if (first === undefined || last === undefined) return []
  const found: Level[] = []
  let from = first.at
  let level = turns[0]?.finding.before ?? median(known.map((one) => one.value))
  for (const turn of turns) {
    const good = Math.max(from, turn.last_good.at)
    found.push({ from, to: good, first: level, last: level })
    const end = endOf(turn, points)
    if (turn.finding.kind === 'drift')
      found.push({ from: good, to: end, first: turn.finding.before, last: turn.finding.after })
    from = end
    level = turn.finding.after
  }
  return [...found, { from, to: Math.max(from, last.at), first: level, last: level }]
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const half = sorted.length >> 1
  const upper = sorted[half] ?? 0
  return sorted.length % 2 === 1 ? upper : ((sorted[half - 1] ?? upper) + upper) / 2
}

/** Round ends from the lowest value to the highest but for the wildest; every level with its band fits. */
function endsOf(
  points: readonly Point[],
  levels: readonly Level[],
  spread: number | null,
): { low: number; high: number; step: number } {
  const values = points.flatMap((one) => (one.value === null ? [] : [one.value])).sort((a, b) => a - b)
  const cut = Math.floor(values.length * BEYOND)
  const wide = spread === null ? 0 : WIDE * spread
  const ends = levels.flatMap((one) => [one.first - wide, one.first + wide, one.last - wide, one.last + wide])
  const low = Math.min(...ends, values[cut] ?? 0)
  const high = Math.max(...ends, values.at(-1 - cut) ?? 1)
  const room = high > low ? high - low : Math.abs(high) || 1
  const step = niceStep((room * 1.15) / TICKS)
  // The signs of the changes stand at the top.
  return {
    low: Math.floor((low - room * 0.03) / step) * step,
    high: Math.ceil((high + room * 0.12) / step) * step,
    step,
  }
}

function niceStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough))
  return power * ([1, 2, 2.5, 5, 10].find((one) => one * power >= rough) ?? 10)
}

/** A change in words. */
export function turnWords(turn: KnownFinding): string {
  const state = turn.state === 'open' ? '' : `, ${turn.state}`
  return `${answerWords(turn.finding)}: ${changeWords(turn.finding, turn.series.unit)} since ${date(turn.first_bad.at)}, cause: ${turn.triage.cause}${state}`
}

/** The picture in words, for people who cannot see it. */
export function described({ points, turns, unit }: Trend): string {
  const values = points.flatMap((one) => (one.value === null ? [] : [one.value]))
  const [first, last] = [points[0], points.at(-1)]
  if (first === undefined || last === undefined || values.length === 0) return 'No result has a value.'
  const low = values.reduce((a, b) => Math.min(a, b))
  const high = values.reduce((a, b) => Math.max(a, b))
  const failed = points.length - values.length
  return [
    `${count(values.length, 'result')} from ${date(first.at)} to ${date(last.at)}, between ${show(low)} and ${show(high)} ${unit}.`.replace(
      ' .',
      '.',
    ),
    turns.length > 0 ? `${count(turns.length, 'change')}.` : 'No change was found.',
    failed > 0 ? `${failed} without a value.` : '',
  ]
    .filter(Boolean)
    .join(' ')
}

/** A moment as the axis of time has it. */
export function x(trend: Trend, at: number): number {
  return trend.counted ? at : at * 1000
}
