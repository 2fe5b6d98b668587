import { type Doubt, decimalsFor, halfWidth, show } from '@/parts/numbers'

interface MeasuredProps {
  value: number | null | undefined
  unit?: string
  interval?: Doubt | null
  better?: string | null
  runs?: number
}

const ARROWS: Record<string, string> = { lower: '↓', higher: '↑' }

/** A number with its unit, its interval and which way is better; why there is no interval, where there is none. */
export function Measured({ value, unit = '', interval, better, runs }: MeasuredProps) {
  if (value === null || value === undefined) return <span className="quiet">not measured</span>
  const places = decimalsFor(value, halfWidth(interval))
  return (
    <span className="number">
      <strong>{show(value, places)}</strong> {unit}{' '}
      <span className="quiet">
        {interval
          ? `[${show(interval.low, places)}, ${show(interval.high, places)}]`
          : runs === 1
            ? '(one run)'
            : '(no interval)'}
      </span>
      {better && ARROWS[better] && (
        <span className="quiet" title={`${better} is better`}>
          {' '}
          {ARROWS[better]}
          <span className="unseen"> {better} is better</span>
        </span>
      )}
    </span>
  )
}
