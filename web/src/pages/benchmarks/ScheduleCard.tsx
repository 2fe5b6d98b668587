import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Api } from '@/api/client'
import { scheduleOfQuery } from '@/api/queries/schedules'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { State } from '@/parts/Mark'
import { Ago } from '@/parts/Time'

/** When a benchmark runs by itself. */
export function ScheduleCard({ benchmark }: { benchmark: string }) {
  const schedule = useQuery(scheduleOfQuery(benchmark))
  return (
    <Card title="Schedule" aside={<Link to="/schedules">All schedules</Link>}>
      <Asked query={schedule} what="the schedule">
        {(found) => (found === null ? <p className="quiet">It runs only on request.</p> : <Times schedule={found} />)}
      </Asked>
    </Card>
  )
}

function Times({ schedule: { id, state, schedule, next, last } }: { schedule: Api<'ScheduleView'> }) {
  const { cron, timezone } = schedule
  return (
    <dl className="facts">
      <dt>State</dt>
      <dd>
        <State state={state} />
      </dd>
      <dt>When</dt>
      <dd>
        <Link to="/schedules/$schedule" params={{ schedule: id }}>
          <code>{String(cron)}</code>
        </Link>{' '}
        <span className="quiet">{String(timezone)}</span>
      </dd>
      <dt>Next</dt>
      <dd>{next[0] ? <Ago at={next[0].due} /> : <span className="quiet">none while it is paused</span>}</dd>
      <dt>Last</dt>
      <dd>
        {last ? (
          <>
            <State state={last.outcome} /> <Ago at={last.due} />
            {last.campaign && (
              <>
                {' '}
                <Link to="/campaigns/$campaign" params={{ campaign: last.campaign }}>
                  {last.campaign}
                </Link>
              </>
            )}
          </>
        ) : (
          <span className="quiet">not yet</span>
        )}
      </dd>
    </dl>
  )
}
