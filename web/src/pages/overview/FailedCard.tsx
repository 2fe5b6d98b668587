import { Link } from '@tanstack/react-router'
import type { Api } from '@/api/client'
import { Card } from '@/parts/Card'
import { State } from '@/parts/Mark'
import { Ago } from '@/parts/Time'

/** Where on the page they stand. */
export const FAILED = 'what-failed'

/** Jobs that ended without numbers in the last seven days. */
export function FailedCard({ jobs }: { jobs: Api<'JobSummary'>[] }) {
  return (
    <div id={FAILED}>
      <Card title="What failed" aside={<span className="quiet">in the last 7 days</span>}>
        {jobs.length === 0 && <p className="quiet">No job has failed.</p>}
        <ul className="news">
          {jobs.map((job) => (
            <li key={job.id}>
              <div className="news-line">
                <Link to="/jobs/$job" params={{ job: job.id }}>
                  {job.benchmark}
                  {job.label ? `, ${job.label}` : ''}
                </Link>{' '}
                <span className="quiet">
                  <Ago at={job.ended_at} />
                </span>
              </div>
              <div className="small-print two-lines">
                <State state={job.state} />{' '}
                <span className="quiet">
                  {job.agent_name ? `on ${job.agent_name}: ` : ''}
                  {job.reason || 'no reason was given'}
                </span>
              </div>
            </li>
          ))}
        </ul>
      </Card>
    </div>
  )
}
