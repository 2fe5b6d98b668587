import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Api } from '@/api/client'
import { overviewQuery } from '@/api/queries/session'
import { usePollMs } from '@/app/live'
import { CampaignsTable } from '@/pages/campaigns/CampaignsTable'
import { AlertsCard } from '@/pages/overview/AlertsCard'
import { FailedCard } from '@/pages/overview/FailedCard'
import { Figures } from '@/pages/overview/Figures'
import { FleetCard } from '@/pages/overview/FleetCard'
import { MovedCard } from '@/pages/overview/MovedCard'
import { RunningCard } from '@/pages/overview/RunningCard'
import { Start } from '@/pages/overview/Start'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { Page } from '@/parts/Page'
import '@/pages/campaigns/campaigns.css'
import './overview.css'

export default function OverviewPage() {
  const overview = useQuery({ ...overviewQuery(), refetchInterval: usePollMs() })
  return (
    <Page
      title="Overview"
      lead="What runs now, what failed, what moved, and how the machines are."
      actions={
        <Link to="/benchmarks/new" className="button primary">
          New benchmark
        </Link>
      }
    >
      <Asked query={overview} what="the overview">
        {(found) => (found.campaigns === 0 ? <Start agents={found.fleet.agents} /> : <Boards overview={found} />)}
      </Asked>
    </Page>
  )
}

function Boards({ overview }: { overview: Api<'Overview'> }) {
  return (
    <>
      <Figures overview={overview} />
      <div className="overview-columns">
        <div>
          <RunningCard campaigns={overview.running} jobs={overview.jobs} />
          <FailedCard jobs={overview.failed} />
          <FleetCard fleet={overview.fleet} />
        </div>
        <div>
          <MovedCard findings={overview.moved} open={overview.findings_open} />
          <AlertsCard alerts={overview.alerts} open={overview.alerts_open} />
        </div>
      </div>
      <Card
        title="Last campaigns"
        aside={<Link to="/campaigns">All {overview.campaigns.toLocaleString('en-US')} campaigns</Link>}
      >
        {overview.last.length > 0 ? (
          <CampaignsTable rows={overview.last} />
        ) : (
          <p className="quiet">No campaign has ended yet.</p>
        )}
      </Card>
    </>
  )
}
