import type { Colours } from '@/charts/colours'
import { KINDS } from '@/pages/series/around'
import { type Trend, x } from '@/pages/series/trend'
import type { Alert } from '@/watching/types'
import { moment } from '@/watching/words'

/** A row below the plot: marks at moments, each with its words. */
export interface Lane {
  name: string
  marks: { at: number; says: string; key: string }[]
}

/** What happened beside the numbers: what changed around them, jobs that failed, alerts. */
export function lanesOf(trend: Trend, alerts: readonly Alert[]): Lane[] {
  const around = KINDS.map((kind) => ({
    name: kind,
    marks: trend.around
      .filter((one) => one.kind === kind)
      .map((one) => ({
        at: one.point.at,
        says: `${moment(one.point.at)}: ${kind}\n${one.says.slice(0, 8).join('\n')}`,
        key: `point:${one.point.id}`,
      })),
  }))
  const failed = trend.points
    .filter((one) => one.value === null)
    .map((one) => ({
      at: one.at,
      says: `${moment(one.at)}: no value, ${one.verdict || 'not measured'}`,
      key: `point:${one.id}`,
    }))
  // An alert opens at a moment: a series whose times are only counted has no place for it.
  const opened = (trend.counted ? [] : alerts).map((one) => ({
    at: one.opened_at,
    says: `${moment(one.opened_at)}: alert, ${one.state}\n${one.title}`,
    key: `alert:${one.id}`,
  }))
  return [...around, { name: 'failed jobs', marks: failed }, { name: 'alerts', marks: opened }].filter(
    (lane) => lane.marks.length > 0,
  )
}

/** The marks of the rows below the plot. */
export function laneMarks(trend: Trend, lanes: Lane[], colours: Colours): object[] {
  if (lanes.length === 0) return []
  const symbols: Record<string, [string, string]> = {
    'failed jobs': ['diamond', colours.bad],
    alerts: ['triangle', colours.bad],
    code: ['circle', colours.muted],
  }
  return lanes.map((lane, row) => {
    const [symbol, colour] = symbols[lane.name] ?? ['rect', colours.warn]
    return {
      type: 'scatter',
      name: lane.name,
      xAxisIndex: 1,
      yAxisIndex: 1,
      z: 3,
      symbol,
      symbolSize: symbol === 'circle' ? 6 : 9,
      itemStyle: { color: colour },
      tooltip: { formatter: (one: { data: { says: string } }) => one.data.says },
      data: lane.marks.map((mark) => ({ value: [x(trend, mark.at), row], says: mark.says, key: mark.key })),
    }
  })
}
