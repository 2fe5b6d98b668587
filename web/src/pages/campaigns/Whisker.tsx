import type { Doubt } from '@/parts/numbers'

export interface Scale {
  low: number
  high: number
  log: boolean
}

const LOG_FROM = 20
const WIDTH = 132
const HEIGHT = 14
const EDGE = 4

/** One scale for all that is drawn side by side; a logarithmic one where the values are far apart. */
export function scaleOf(drawn: readonly { median: number; interval: Doubt | null }[]): Scale | null {
  const ends = drawn
    .flatMap(({ median, interval }) => (interval ? [interval.low, median, interval.high] : [median]))
    .filter(Number.isFinite)
  if (ends.length === 0) return null
  const [low, high] = [Math.min(...ends), Math.max(...ends)]
  return { low, high, log: low > 0 && high / low > LOG_FROM }
}

export function placeOn(scale: Scale, value: number): number {
  const measure = scale.log ? Math.log : (one: number) => one
  const [from, to] = [measure(scale.low), measure(scale.high)]
  const share = to === from ? 0.5 : (measure(Math.max(value, scale.log ? scale.low : value)) - from) / (to - from)
  return EDGE + Math.min(Math.max(share, 0), 1) * (WIDTH - 2 * EDGE)
}

/** A median with its interval on a shared scale; the numbers stand beside it in words. */
export function Whisker({ value, interval, scale }: { value: number; interval: Doubt | null; scale: Scale }) {
  const [at, middle] = [placeOn(scale, value), HEIGHT / 2]
  const [from, to] = interval ? [placeOn(scale, interval.low), placeOn(scale, interval.high)] : [at, at]
  return (
    <svg className="job-whisker" aria-hidden="true" width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`}>
      <line className="rail" x1={EDGE} x2={WIDTH - EDGE} y1={middle} y2={middle} />
      {interval && (
        <path className="span" d={`M${from} ${middle}H${to}M${from} 3V${HEIGHT - 3}M${to} 3V${HEIGHT - 3}`} />
      )}
      <circle className={interval ? 'dot' : 'dot alone'} cx={at} cy={middle} r="3" />
    </svg>
  )
}
