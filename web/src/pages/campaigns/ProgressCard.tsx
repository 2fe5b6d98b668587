import type { Api } from '@/api/client'
import { byPhase, PHASES } from '@/pages/campaigns/progress'
import { StateBar } from '@/pages/campaigns/StateBar'
import { JOB_STATES } from '@/pages/campaigns/words'
import { Card } from '@/parts/Card'
import { State } from '@/parts/Mark'
import { duration, secondsOf } from '@/parts/Time'

type Campaign = Api<'CampaignDetail'>

/** How far a campaign is: jobs by state, and those that run by the phase they are in. */
export function ProgressCard({ campaign }: { campaign: Campaign }) {
  const { counts, jobs, jobs_ended: ended } = campaign
  return (
    <Card title="Progress" aside={<span className="quiet">{timeText(campaign)}</span>}>
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
      {(counts.running ?? 0) > 0 && <Phases jobs={campaign.job_list} />}
    </Card>
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

function timeText({ created_at: from, completed_at: to }: Campaign): string {
  return to
    ? `took ${duration(secondsOf(to) - secondsOf(from))}`
    : `for ${duration(Math.max(0, Date.now() / 1000 - secondsOf(from)))} so far`
}
