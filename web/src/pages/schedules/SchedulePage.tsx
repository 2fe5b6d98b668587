import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { stringify } from 'yaml'
import type { Api } from '@/api/client'
import { scheduleQuery } from '@/api/queries/schedules'
import { usePollMs } from '@/app/live'
import { Firings } from '@/pages/schedules/Firings'
import { ScheduleActions } from '@/pages/schedules/ScheduleActions'
import { Times } from '@/pages/schedules/Times'
import { localWords, MISSED, OVERLAP } from '@/pages/schedules/times'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { Empty } from '@/parts/Empty'
import { State } from '@/parts/Mark'
import { Page } from '@/parts/Page'
import { Ago, duration } from '@/parts/Time'

type Schedule = Api<'ScheduleView'>

/** One schedule: when it runs next, the outcome of its due times, and what it submits. */
export default function SchedulePage() {
  const { schedule = '' } = useParams({ strict: false })
  const query = useQuery({ ...scheduleQuery(schedule), refetchInterval: usePollMs() })
  const found = query.data?.summary
  return (
    <Page
      title={found ? found.name : 'Schedule'}
      crumbs={<Link to="/schedules">Schedules</Link>}
      actions={found && <ScheduleActions schedule={found} whole />}
      lead="When this benchmark runs by itself, the outcome of each due time, and what is submitted."
    >
      <Asked query={query} what="the schedule">
        {({ summary, submission }) => (
          <>
            <div className="cards cards-above">
              <Card title="When it runs" aside={<State state={summary.state} />}>
                <Facts schedule={summary} />
              </Card>
              <Card title="Next times">
                <Next schedule={summary} />
              </Card>
            </div>
            <Card title="Due times and their outcome">
              <Firings schedule={summary.id} />
            </Card>
            <Card title="What it submits">
              <pre>{stringify(submission.document ?? {})}</pre>
            </Card>
          </>
        )}
      </Asked>
    </Page>
  )
}

function Facts({ schedule }: { schedule: Schedule }) {
  const section = schedule.schedule
  const words = (all: readonly (readonly [string, string])[], key: string) =>
    all.find(([word]) => word === section[key])?.[1] ?? String(section[key] ?? '')
  const jitter = typeof section.jitter === 'number' ? section.jitter : 0
  return (
    <dl className="facts">
      <dt>Times</dt>
      <dd>
        <Times schedule={section} />
      </dd>
      <dt>Starts</dt>
      <dd>{jitter > 0 ? `up to ${duration(jitter)} later` : 'on time'}</dd>
      <dt>Server not running</dt>
      <dd>{words(MISSED, 'missed')}</dd>
      <dt>Previous campaign still running</dt>
      <dd>{words(OVERLAP, 'overlap')}</dd>
      <dt>Set by</dt>
      <dd>
        {schedule.submitted_by || 'unknown'}, changed <Ago at={schedule.changed_at} />
      </dd>
    </dl>
  )
}

function Next({ schedule }: { schedule: Schedule }) {
  if (schedule.state === 'paused')
    return <Empty title="It is paused.">Times that fall due during the pause are not made up for.</Empty>
  if (schedule.next.length === 0) return <Empty title="It will never be due again." />
  return (
    <table className="table">
      <thead>
        <tr>
          <th scope="col">Due, on the clocks of {String(schedule.schedule.timezone ?? 'UTC')}</th>
          <th scope="col">Starts</th>
        </tr>
      </thead>
      <tbody>
        {schedule.next.map((one) => (
          <tr key={one.due}>
            <td className="nowrap">{localWords(one.local)}</td>
            <td>
              <Ago at={one.starts} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
