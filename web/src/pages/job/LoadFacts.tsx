import type { Full } from '@/pages/job/words'
import { Card } from '@/parts/Card'
import { Measured } from '@/parts/Measured'
import { show } from '@/parts/numbers'

/** What a user of a service feels, what the service gives, and what went wrong: name, what it means. */
const FELT: [string, string][] = [
  ['capacity_per_s', 'highest rate at which the objective was met'],
  ['goodput_per_s', 'requests per second that met every objective by themselves'],
  ['throughput_per_s', 'requests finished per second of the measured window'],
  ['output_tokens_per_s', 'output tokens that arrived per second, all users together'],
  ['ttft_ms', 'from the moment a request was due to its first token'],
  ['itl_ms', 'time per token between two arrivals of tokens'],
  ['tpot_ms', 'first to last token of an answer, per token'],
  ['e2e_ms', 'from the moment a request was due to the end of its answer'],
  ['latency_ms', 'one warm call, from the moment it was due to its last output'],
  ['schedule_delay_ms', 'from the moment a request was due to the moment it was sent'],
  ['error_rate', 'share of the requests that failed or were skipped'],
]

/** The load in numbers: each with its interval, and its tail where enough samples back it. */
export function LoadFacts({ full }: { full: Full }) {
  const found = FELT.flatMap(([name, means]) => {
    const stats = full.result.metrics[name]
    return stats ? [{ name, means, stats }] : []
  })
  if (found.length === 0) return null
  return (
    <Card title="What a user feels">
      <dl className="headline">
        {found.map(({ name, means, stats }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <Measured
                value={stats.median}
                unit={stats.unit}
                interval={stats.interval}
                better={stats.better}
                runs={stats.runs}
              />
            </dd>
            <dd className="quiet">
              {means}
              {stats.p99 === null ? '' : `; p99 ${show(stats.p99)} ${stats.unit}`}
            </dd>
          </div>
        ))}
      </dl>
    </Card>
  )
}
