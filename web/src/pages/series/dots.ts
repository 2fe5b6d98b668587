import type { Colours } from '@/charts/colours'
import { type Trend, WIDE, x } from '@/pages/series/trend'
import { decimalsFor, show } from '@/parts/numbers'
import type { Point } from '@/watching/types'
import { moment, valueWords } from '@/watching/words'

// More lines than this would hide the points.
const MOST_LINES = 40
const SMALL_FROM = 400

/** What a drawing of our own is given by the chart. */
export interface Drawing {
  value: (dimension: number) => number
  coord: (at: [number, number]) => [number, number]
}

/** The level of each stretch, and the band in which 95 % of results lie as long as nothing changes. */
export function bands(trend: Trend, colours: Colours): object {
  const wide = trend.spread === null ? 0 : WIDE * trend.spread
  return {
    type: 'custom',
    name: 'level',
    silent: true,
    clip: true,
    z: 1,
    tooltip: { show: false },
    data: trend.levels.map((one) => [x(trend, one.from), one.first, x(trend, one.to), one.last]),
    renderItem: (_: unknown, api: Drawing) => {
      const [from, first, to, last] = [api.value(0), api.value(1), api.value(2), api.value(3)]
      const corners = [
        api.coord([from, first - wide]),
        api.coord([from, first + wide]),
        api.coord([to, last + wide]),
        api.coord([to, last - wide]),
      ]
      const [[x1, y1], [x2, y2]] = [api.coord([from, first]), api.coord([to, last])]
      const line = { type: 'line', shape: { x1, y1, x2, y2 }, style: { stroke: colours.ink, lineWidth: 1.5 } }
      const band = { type: 'polygon', shape: { points: corners }, style: { fill: colours.accentSoft } }
      return { type: 'group', children: wide > 0 ? [band, line] : [line] }
    },
  }
}

/** How far each result may be off by itself. */
export function whiskers(trend: Trend, colours: Colours): object {
  const data = trend.points.flatMap((one) =>
    one.value === null || typeof one.standard_error !== 'number'
      ? []
      : [[x(trend, one.at), one.value - WIDE * one.standard_error, one.value + WIDE * one.standard_error]],
  )
  return {
    type: 'custom',
    name: 'interval',
    silent: true,
    clip: true,
    z: 2,
    data,
    tooltip: { show: false },
    renderItem: (_: unknown, api: Drawing) => {
      const [at, low] = api.coord([api.value(0), api.value(1)])
      const [, high] = api.coord([api.value(0), api.value(2)])
      return {
        type: 'line',
        shape: { x1: at, y1: low, x2: at, y2: high },
        style: { stroke: colours.muted, lineWidth: 1, opacity: 0.7 },
      }
    },
  }
}

const VERDICTS = ['valid', 'suspect', 'invalid', 'imported'] as const
const SHAPES = { valid: 'circle', suspect: 'circle', invalid: 'diamond', imported: 'circle' } as const

type Verdict = (typeof VERDICTS)[number]

// What is doubted is drawn open.
function isOpen(verdict: Verdict): boolean {
  return verdict === 'suspect' || verdict === 'invalid'
}

function verdictOf(point: Point): Verdict {
  return VERDICTS.find((one) => one === point.verdict) ?? 'imported'
}

export function verdictsIn(trend: Trend): Verdict[] {
  const found = new Set(trend.points.filter((one) => one.value !== null).map(verdictOf))
  return VERDICTS.filter((one) => found.has(one))
}

export function dots(trend: Trend, picked: string, colours: Colours): object[] {
  const tone = { valid: colours.accent, suspect: colours.warn, invalid: colours.bad, imported: colours.accent }
  const size = trend.points.length > SMALL_FROM ? 4 : 7
  return verdictsIn(trend).map((verdict, at) => ({
    type: 'scatter',
    name: verdict,
    z: 3,
    clip: true,
    symbol: SHAPES[verdict],
    symbolSize: size,
    itemStyle: isOpen(verdict)
      ? { color: colours.surface, borderColor: tone[verdict], borderWidth: 1.6 }
      : { color: tone[verdict] },
    tooltip: { formatter: (one: { dataIndex: number; data: { says: string } }) => one.data.says },
    data: trend.points
      .filter((one) => one.value !== null && verdictOf(one) === verdict && inside(trend, one.value))
      .map((one) => ({
        value: [x(trend, one.at), one.value],
        key: `point:${one.id}`,
        says: pointWords(one, trend.unit),
        ...(String(one.id) === picked
          ? { symbolSize: 14, itemStyle: { borderColor: colours.ink, borderWidth: 2 } }
          : {}),
      })),
    markLine: at === 0 ? aroundLines(trend, colours) : undefined,
  }))
}

function inside(trend: Trend, value: number): boolean {
  return value >= trend.low && value <= trend.high
}

export function pointWords(point: Point, unit: string): string {
  if (point.value === null) return `${moment(point.at)}: no value`
  const error = point.standard_error ?? null
  const places = decimalsFor(point.value, error === null ? null : WIDE * error)
  const interval =
    error === null
      ? '(no interval)'
      : `[${show(point.value - WIDE * error, places)}, ${show(point.value + WIDE * error, places)}]`
  const facts = ['machine', 'commit', 'driver'].flatMap((name) =>
    point.context?.[name] === undefined ? [] : [`${name} ${valueWords(point.context[name])}`],
  )
  return [
    moment(point.at),
    `${show(point.value, places)} ${unit} ${interval}`,
    point.verdict || 'imported',
    ...facts,
  ].join('\n')
}

/** Upright dotted lines where something other than the code changed. */
function aroundLines(trend: Trend, colours: Colours): object {
  const marks = trend.around.filter((one) => one.kind !== 'code' && one.kind !== 'other')
  return {
    silent: true,
    symbol: 'none',
    label: { show: false },
    lineStyle: { color: colours.warn, type: 'dotted', width: 1 },
    data: marks.length > MOST_LINES ? [] : marks.map((one) => ({ xAxis: x(trend, one.point.at) })),
  }
}

/** Results far beyond the others, at the edge. */
export function beyond(trend: Trend, colours: Colours): object {
  return {
    type: 'scatter',
    name: 'beyond',
    z: 4,
    symbol: 'triangle',
    symbolSize: 9,
    itemStyle: { color: colours.bad },
    clip: false,
    tooltip: { formatter: (one: { data: { says: string } }) => one.data.says },
    data: trend.points
      .filter((one) => one.value !== null && !inside(trend, one.value))
      .map((one) => ({
        value: [x(trend, one.at), (one.value ?? 0) > trend.high ? trend.high : trend.low],
        symbolRotate: (one.value ?? 0) > trend.high ? 0 : 180,
        key: `point:${one.id}`,
        says: `beyond the axis\n${pointWords(one, trend.unit)}`,
      })),
  }
}
