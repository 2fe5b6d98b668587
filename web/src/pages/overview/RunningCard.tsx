import { Link } from '@tanstack/react-router'
import type { Api } from '@/api/client'
import { StateBar } from '@/pages/campaigns/StateBar'
import { countsText } from '@/pages/campaigns/words'
import { Card } from '@/parts/Card'
import { Ago } from '@/parts/Time'

/** The campaigns that are being measured. */
export function RunningCard({
  campaigns,
  jobs,
}: {
  campaigns: Api<'CampaignSummary'>[]
  jobs: Api<'Overview'>['jobs']
}) {
  return (
    <Card
      title="Runs now"
      aside={
        <Link to="/campaigns" search={{ state: 'running' }}>
          All that run
        </Link>
      }
    >
      {campaigns.length === 0 && (
        <p className="quiet">
          Nothing runs{jobs.pending > 0 ? `; ${jobs.pending.toLocaleString('en-US')} jobs wait` : ''}.
        </p>
      )}
      <ul className="news">
        {campaigns.map((one) => (
          <li key={one.id}>
            <div className="news-line">
              <Link to="/campaigns/$campaign" params={{ campaign: one.id }}>
                {one.benchmark}
              </Link>{' '}
              <span className="quiet">
                <Ago at={one.created_at} />
              </span>
            </div>
            <StateBar counts={one.counts ?? {}} jobs={one.jobs} ended={one.jobs_ended} />
            <div className="quiet small-print">
              {one.jobs_ended} of {one.jobs} jobs ended: {countsText(one.counts ?? {})}
            </div>
          </li>
        ))}
      </ul>
    </Card>
  )
}
