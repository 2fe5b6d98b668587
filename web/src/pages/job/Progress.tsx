import { useQuery } from '@tanstack/react-query'
import type { Api } from '@/api/client'
import { placementQuery } from '@/api/queries/campaigns'
import { momentText, PHASES, standingOf } from '@/pages/campaigns/progress'
import { Ago } from '@/parts/Time'

type View = Api<'JobSummary'>

/** How far a job is, or what it waits for. */
export function Progress({ job }: { job: View }) {
  return job.state === 'running' ? <Going job={job} /> : <Waiting job={job} />
}

function Going({ job }: { job: View }) {
  const standing = standingOf(job)
  const percent = standing.share === null ? null : Math.round(standing.share * 100)
  return (
    <div className="going">
      {percent !== null && (
        <div
          className="bar"
          role="progressbar"
          aria-label="Runs that are over"
          aria-valuenow={percent}
          aria-valuemin={0}
          aria-valuemax={100}
        >
          <span style={{ width: `${percent}%` }} />
        </div>
      )}
      <p>
        {job.progress ? momentText(job) : 'The agent has not reported its progress yet'}.{' '}
        {job.started_at !== null && (
          <span className="quiet">
            Started <Ago at={job.started_at} />.
          </span>
        )}
      </p>
      {standing.run !== null && <Phases now={standing.phase} />}
    </div>
  )
}

/** The steps of a run, with the one that it is in. */
function Phases({ now }: { now: string }) {
  const place = PHASES.findIndex(([name]) => name === now)
  return (
    <ol className="phases" aria-label="Steps of a run">
      {PHASES.map(([name, says], at) => (
        <li
          key={name}
          title={says}
          className={at < place ? 'over' : undefined}
          aria-current={at === place ? 'step' : undefined}
        >
          {name}
        </li>
      ))}
    </ol>
  )
}

function Waiting({ job }: { job: View }) {
  const placement = useQuery(placementQuery(job.campaign)).data
  const later = job.not_before * 1000 > Date.now()
  return (
    <div className="going">
      <p>
        It was submitted <Ago at={job.submitted_at} /> and waits for a machine that can take it.
        {job.lost > 0 && ` ${job.lost} lease${job.lost === 1 ? ' was' : 's were'} lost before.`}
      </p>
      {later && (
        <p>
          It is offered again <Ago at={job.not_before} />: after a lost lease it waits for a while.
        </p>
      )}
      {placement && !placement.placeable && (
        <p>
          <strong>{placement.says}.</strong>
        </p>
      )}
    </div>
  )
}
