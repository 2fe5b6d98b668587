import type { Api } from '@/api/client'
import { type TrendPoint, trendOf, trendText } from '@/pages/benchmarks/trend'

const WIDTH = 150
const HEIGHT = 30
const EDGE = 4

/** The newest results of a benchmark's headline metric as a line in a band of doubt, without axes. */
export function Sparkline({ headline }: { headline: Api<'Headline'> }) {
  const points = trendOf(headline)
  const newest = points.at(-1)
  if (newest === undefined || points.length < 2) return <span className="quiet">too few results</span>
  const ends = points.flatMap((one) => [one.value, one.low ?? one.value, one.high ?? one.value])
  const [low, high] = [Math.min(...ends), Math.max(...ends)]
  const x = (at: number) => EDGE + (at / (points.length - 1)) * (WIDTH - 2 * EDGE)
  const y = (value: number) =>
    high === low ? HEIGHT / 2 : HEIGHT - EDGE - ((value - low) / (high - low)) * (HEIGHT - 2 * EDGE)
  const line = (of: (one: TrendPoint) => number) =>
    points.map((one, at) => `${x(at).toFixed(1)},${y(of(one)).toFixed(1)}`)
  const band = [...line((one) => one.high ?? one.value), ...line((one) => one.low ?? one.value).reverse()]
  return (
    <svg
      className="sparkline"
      role="img"
      aria-label={trendText(headline)}
      width={WIDTH}
      height={HEIGHT}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
    >
      <title>{trendText(headline)}</title>
      <polygon className="doubt-band" points={band.join(' ')} />
      <polyline points={line((one) => one.value).join(' ')} />
      <circle cx={x(points.length - 1)} cy={y(newest.value)} r="2.5" />
    </svg>
  )
}
