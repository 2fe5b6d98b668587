import { Link } from '@tanstack/react-router'
import type { Api } from '@/api/client'
import { standingOf, standingText } from '@/pages/campaigns/progress'
import { type Scale, Whisker } from '@/pages/campaigns/Whisker'
import { State, Verdict } from '@/parts/Mark'
import { Measured } from '@/parts/Measured'

export interface CellProps {
  job: Api<'JobSummary'>
  result: Api<'ResultView'> | undefined
  metric: string
  scale: Scale | null
  /** Show the job's label: other jobs share its place. */
  named: boolean
}

/** One job: how far it is, or what it measured and whether to believe it. */
export function JobCell({ job, result, metric, scale, named }: CellProps) {
  return (
    <Link
      to="/jobs/$job"
      params={{ job: job.id }}
      className={`job-cell ${job.state} ${job.verdict ?? ''}`}
      title={result?.doubts.join('\n')}
    >
      {named && <span className="quiet">{job.label || job.id}</span>}
      {job.state === 'done' ? <Verdict verdict={job.verdict} /> : <State state={job.state} />}
      <Inside job={job} result={result} metric={metric} scale={scale} />
    </Link>
  )
}

function Inside({ job, result, metric, scale }: Omit<CellProps, 'named'>) {
  if (job.state === 'running') return <Running job={job} />
  if (job.state === 'pending')
    return job.lost > 0 ? (
      <span className="quiet">
        offered again after {job.lost} lost {job.lost === 1 ? 'lease' : 'leases'}
      </span>
    ) : null
  if (job.state === 'cancelled') return job.reason ? <span className="reason">{job.reason}</span> : null
  if (job.state !== 'done') return <span className="reason">{job.reason || 'no reason was given'}</span>
  if (result === undefined) return <span className="quiet">reading…</span>
  const found = result.metrics[metric]
  if (found === undefined) return <span className="quiet">{metric ? `${metric} not measured` : 'no metric'}</span>
  return (
    <>
      <Measured
        value={found.median}
        unit={found.unit}
        interval={found.interval}
        better={found.better}
        runs={found.runs}
      />
      {scale && <Whisker value={found.median} interval={found.interval} scale={scale} />}
    </>
  )
}

function Running({ job }: { job: Api<'JobSummary'> }) {
  const standing = standingOf(job)
  return (
    <>
      <span className="quiet">
        {standingText(standing)}
        {job.agent_name ? ` on ${job.agent_name}` : ''}
      </span>
      {standing.share !== null && (
        <span className="bar" aria-hidden="true">
          <span style={{ width: `${standing.share * 100}%` }} />
        </span>
      )}
    </>
  )
}
