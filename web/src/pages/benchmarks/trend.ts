import type { Api } from '@/api/client'
import { decimalsFor, halfWidth, show } from '@/parts/numbers'

type Headline = Api<'Headline'>
/** Of a normal distribution, 95 % lie within this many standard errors. */
const WITHIN = 1.96

export interface TrendPoint {
  at: number
  value: number
  low: number | null
  high: number | null
}

/** The points that have a value, each with its 95 % interval where its spread is known. */
export function trendOf({ points }: Pick<Headline, 'points'>): TrendPoint[] {
  return points.flatMap(({ at, value, standard_error: error }) => {
    if (value === null) return []
    const known = error !== null && error !== undefined
    return [{ at, value, low: known ? value - WITHIN * error : null, high: known ? value + WITHIN * error : null }]
  })
}

/** What the trend shows, in words: `latency_ms, 40 results, from 3.1 to 3.4 ms, lower is better`. */
export function trendText(headline: Headline): string {
  const values = trendOf(headline).map((one) => one.value)
  if (values.length === 0) return `${headline.metric}: no result with a value yet`
  const places = decimalsFor(Math.max(...values.map(Math.abs)), halfWidth(headline.interval))
  const range =
    `from ${show(Math.min(...values), places)} to ${show(Math.max(...values), places)} ${headline.unit}`.trim()
  return `${headline.metric}, ${values.length} ${values.length === 1 ? 'result' : 'results'}, ${range}${headline.better ? `, ${headline.better} is better` : ''}`
}
