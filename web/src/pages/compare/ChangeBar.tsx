import type { Doubt } from '@/parts/numbers'

interface ChangeBarProps {
  change: number
  interval: Doubt | null | undefined
  answer: string | null | undefined
  most: number
}

const WIDTH = 130
const HEIGHT = 18
const COLOURS: Record<string, string> = { better: 'var(--good)', worse: 'var(--bad)' }

/** A change on a line centred on zero: its interval as a whisker, dashed where it is undecided. The words are beside it. */
export function ChangeBar({ change, interval, answer, most }: ChangeBarProps) {
  const limit = most > 0 ? most : 1
  const x = (share: number) => WIDTH / 2 + (Math.max(-limit, Math.min(limit, share)) / limit) * (WIDTH / 2 - 6)
  const colour = COLOURS[answer ?? ''] ?? 'var(--unknown)'
  const middle = HEIGHT / 2
  const isSure = answer === 'better' || answer === 'worse'
  return (
    <svg className="change-bar" width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
      <line x1={WIDTH / 2} x2={WIDTH / 2} y1={0} y2={HEIGHT} stroke="var(--muted)" strokeWidth="1" />
      {interval && (
        <g stroke={colour} strokeWidth="2">
          <line
            x1={x(interval.low)}
            x2={x(interval.high)}
            y1={middle}
            y2={middle}
            strokeDasharray={isSure ? undefined : '3 2'}
          />
          <line x1={x(interval.low)} x2={x(interval.low)} y1={middle - 4} y2={middle + 4} />
          <line x1={x(interval.high)} x2={x(interval.high)} y1={middle - 4} y2={middle + 4} />
        </g>
      )}
      {isSure ? (
        <circle cx={x(change)} cy={middle} r="4" fill={colour} />
      ) : (
        <rect
          x={x(change) - 3.5}
          y={middle - 3.5}
          width="7"
          height="7"
          fill="var(--surface)"
          stroke={colour}
          strokeWidth="1.5"
          transform={`rotate(45 ${x(change)} ${middle})`}
        />
      )}
    </svg>
  )
}
