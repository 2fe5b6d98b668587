import { usePrefetchQuery, useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { ApiError } from '@/api/client'
import { benchmarkQuery, benchmarkVersionsQuery } from '@/api/queries/benchmarks'
import { recentCampaignsQuery } from '@/api/queries/campaigns'
import { useChoices } from '@/app/choices'
import { usePollMs } from '@/app/live'
import { BenchmarkActions } from '@/pages/benchmarks/BenchmarkActions'
import { FileCard } from '@/pages/benchmarks/FileCard'
import { ScheduleCard } from '@/pages/benchmarks/ScheduleCard'
import { TrendCard } from '@/pages/benchmarks/TrendCard'
import { VersionsCard } from '@/pages/benchmarks/VersionsCard'
import { CampaignsTable } from '@/pages/campaigns/CampaignsTable'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { Empty } from '@/parts/Empty'
import { Page } from '@/parts/Page'
import { Ago } from '@/parts/Time'
import '@/pages/campaigns/campaigns.css'
import './benchmarks.css'

/** One benchmark: how it went, its campaigns, its file in every version. */
export default function BenchmarkPage() {
  const { benchmark: name = '' } = useParams({ strict: false })
  const wanted = Number(useChoices().text('version'))
  const version = Number.isInteger(wanted) && wanted > 0 ? wanted : undefined
  const stored = useQuery(benchmarkQuery(name, version))
  usePrefetchQuery(benchmarkVersionsQuery(name))
  const isAbsent = stored.error instanceof ApiError && stored.error.status === 404
  const found = stored.data
  return (
    <Page
      title={name}
      crumbs={<Link to="/benchmarks">Benchmarks</Link>}
      lead={
        found ? (
          <>
            What to measure, and how it went. Version {found.version} of {found.newest}, made{' '}
            <Ago at={found.created_at} />
            {found.created_by ? ` by ${found.created_by}` : ''}.
          </>
        ) : (
          'What to measure, and how it went.'
        )
      }
      actions={found && <BenchmarkActions stored={found} />}
    >
      <div className="beside">
        <TrendCard benchmark={name} />
        <ScheduleCard benchmark={name} />
      </div>
      <CampaignsCard benchmark={name} />
      {isAbsent && version === undefined ? (
        <NotStored />
      ) : (
        <Asked query={stored} what="the file">
          {(one) => <FileCard stored={one} />}
        </Asked>
      )}
      {found && <VersionsCard benchmark={name} shown={found.version} />}
    </Page>
  )
}

function CampaignsCard({ benchmark }: { benchmark: string }) {
  const campaigns = useQuery({ ...recentCampaignsQuery(benchmark), refetchInterval: usePollMs() })
  return (
    <Card
      title="Last campaigns"
      aside={
        <Link to="/campaigns" search={{ benchmark }}>
          All of them
        </Link>
      }
    >
      <Asked query={campaigns} what="the campaigns">
        {({ items }) =>
          items.length > 0 ? <CampaignsTable rows={items} ofOne /> : <Empty title="It has not been run yet." />
        }
      </Asked>
    </Card>
  )
}

function NotStored() {
  return (
    <Empty title="The file of this benchmark is not stored here.">
      <p>
        Its campaigns were submitted from a file elsewhere. Each of them can be run again from its own page; to keep the
        file here, open it under <Link to="/benchmarks/new">New benchmark</Link> and save it.
      </p>
    </Empty>
  )
}
