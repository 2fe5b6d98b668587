import { Link } from '@tanstack/react-router'
import type { Api } from '@/api/client'
import { byPhase, momentText, PHASES } from '@/pages/campaigns/progress'
import { StateBar } from '@/pages/campaigns/StateBar'
import { JOB_STATES } from '@/pages/campaigns/words'
import { Card } from '@/parts/Card'
import { State } from '@/parts/Mark'
import { duration, secondsOf, useNow } from '@/parts/Time'

type Campaign = Api<'CampaignDetail'>

/** How far a campaign is: jobs by state, and those that run by the phase they are in. */
export function ProgressCard({ campaign }: { campaign: Campaign }) {
  const { counts, jobs, jobs_ended: ended } = campaign
  const now = useNow(campaign.completed_at === null)
  return (
    <Card title="Progress" aside={<span className="quiet">{timeText(campaign, now)}</span>}>
      <p>
        {ended.toLocaleString('en-US')} of {jobs.toLocaleString('en-US')} jobs ended;{' '}
        {campaign.runs.toLocaleString('en-US')} runs in all.
      </p>
      <StateBar counts={counts} jobs={jobs} ended={ended} />
      <ul className="state-counts">
        {JOB_STATES.map((state) =>
          counts[state] ? (
            <li key={state}>
              <State state={state} /> <span className="number">{counts[state]}</span>
            </li>
          ) : null,
        )}
      </ul>
      {(counts.running ?? 0) > 0 && (
        <>
          <RunningNow jobs={campaign.job_list} now={now} />
          <Phases jobs={campaign.job_list} />
        </>
      )}
    </Card>
  )
}

const MOST_SHOWN = 8

/** Each running job: how far it is, what it measures at this moment, and for how long. */
function RunningNow({ jobs, now }: { jobs: Campaign['job_list']; now: number }) {
  const running = jobs.filter((job) => job.state === 'running')
  return (
    <ul className="running-now" aria-label="Running now">
      {running.slice(0, MOST_SHOWN).map((job) => (
        <li key={job.id}>
          <Link to="/jobs/$job" params={{ job: job.id }}>
            {job.label || job.id}
          </Link>
          <span>{momentText(job)}</span>
          <span className="quiet">
            {job.agent_name ? `on ${job.agent_name}` : ''}
            {job.started_at === null ? '' : `, for ${duration(Math.max(0, now - job.started_at))}`}
          </span>
        </li>
      ))}
      {running.length > MOST_SHOWN && <li className="quiet">and {running.length - MOST_SHOWN} more</li>}
    </ul>
  )
}

function Phases({ jobs }: { jobs: Campaign['job_list'] }) {
  const found = byPhase(jobs)
  const silent = found.get('') ?? 0
  return (
    <>
      <h3>Running jobs by phase</h3>
      <ol className="phases">
        {PHASES.map(([phase, does]) => {
          const here = found.get(phase) ?? 0
          return (
            <li key={phase} className={here > 0 ? 'here' : undefined} title={does}>
              {phase} <strong className="number">{here}</strong>
              <span className="unseen">: {does}</span>
            </li>
          )
        })}
      </ol>
      {silent > 0 && (
        <p className="quiet">
          {silent} more {silent === 1 ? 'has' : 'have'} just started and not reported a phase yet.
        </p>
      )}
    </>
  )
}

function timeText({ created_at: from, completed_at: to, jobs, jobs_ended: ended }: Campaign, now: number): string {
  if (to) return `took ${duration(secondsOf(to) - secondsOf(from))}`
  const spent = Math.max(0, now - secondsOf(from))
  // Jobs of one campaign take about as long, and as many run beside each other now as before.
  const left = ended > 0 && ended < jobs ? `, about ${duration((spent * (jobs - ended)) / ended)} left` : ''
  return `for ${duration(spent)} so far${left}`
}
