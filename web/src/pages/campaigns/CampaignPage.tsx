import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import type { Api } from '@/api/client'
import { campaignAnswerQuery, campaignQuery, campaignResultsQuery } from '@/api/queries/campaigns'
import { usePollMs } from '@/app/live'
import { AnswerCard } from '@/pages/campaigns/AnswerCard'
import { CampaignActions } from '@/pages/campaigns/CampaignActions'
import { CurvesCard } from '@/pages/campaigns/CurvesCard'
import { useCalm } from '@/pages/campaigns/calm'
import { DoubtsCard } from '@/pages/campaigns/DoubtsCard'
import { JobsCard } from '@/pages/campaigns/JobsCard'
import { PlacementCard } from '@/pages/campaigns/PlacementCard'
import { ProgressCard } from '@/pages/campaigns/ProgressCard'
import { count, pairs } from '@/pages/campaigns/words'
import { Asked } from '@/parts/Asked'
import { Empty } from '@/parts/Empty'
import { Failure } from '@/parts/Failure'
import { State } from '@/parts/Mark'
import { Page } from '@/parts/Page'
import { Ago } from '@/parts/Time'
import './campaigns.css'

export default function CampaignPage() {
  const { campaign: id = '' } = useParams({ strict: false })
  const campaign = useQuery({ ...campaignQuery(id), refetchInterval: usePollMs() })
  const found = campaign.data
  return (
    <Page
      title={found?.benchmark ?? `Campaign ${id}`}
      crumbs={
        <>
          <Link to="/campaigns">Campaigns</Link> / {id}
        </>
      }
      lead={found ? <Lead campaign={found} /> : 'One submission of a benchmark: its jobs, and what they measured.'}
      actions={found && <CampaignActions campaign={found} />}
    >
      <Asked query={campaign} what="the campaign">
        {(one) => <Content campaign={one} />}
      </Asked>
    </Page>
  )
}

function Lead({ campaign }: { campaign: Api<'CampaignDetail'> }) {
  const { benchmark, version, labels, submitted_by: by, engine, created_at: at } = campaign
  return (
    <>
      <State state={campaign.state} /> One submission of{' '}
      <Link to="/benchmarks/$benchmark" params={{ benchmark }}>
        {benchmark}
      </Link>
      {version ? ` (version ${version})` : ''}: {count(campaign.jobs, 'job')}, submitted <Ago at={at} />
      {by ? ` by ${by}` : ''}, placed by the engine {engine}.
      {Object.keys(labels).length > 0 && ` Labels: ${pairs(labels)}.`}
    </>
  )
}

// Reading the results of many jobs is work for the server: not at every job that ends.
const MANY = 50
const MANY_REST_MS = 3_000

function Content({ campaign }: { campaign: Api<'CampaignDetail'> }) {
  const ended = useCalm(campaign.jobs_ended, campaign.jobs > MANY ? MANY_REST_MS : 0)
  const hasEnded = campaign.jobs_ended > 0
  const results = useQuery({ ...campaignResultsQuery(campaign.id, ended), enabled: hasEnded })
  const answer = useQuery({ ...campaignAnswerQuery(campaign.id, ended), enabled: hasEnded })
  const isOver = campaign.jobs_ended === campaign.jobs
  if (campaign.jobs === 0) return <Empty title="This campaign has no jobs." />
  return (
    <>
      {isOver && answer.data && <AnswerCard answer={answer.data} />}
      {!isOver && <ProgressCard campaign={campaign} />}
      {campaign.state === 'running' && campaign.engine === 'fleet' && (campaign.counts.pending ?? 0) > 0 && (
        <PlacementCard campaign={campaign.id} />
      )}
      {answer.error && <Failure error={answer.error} again={() => void answer.refetch()} />}
      {!isOver && answer.data && <AnswerCard answer={answer.data} />}
      {results.error && <Failure error={results.error} again={() => void results.refetch()} />}
      <JobsCard campaign={campaign} results={results.data ?? []} answer={answer.data} />
      {hasEnded && <CurvesCard campaign={campaign.id} ended={ended} />}
      {answer.data && <DoubtsCard answer={answer.data} />}
      {isOver && <ProgressCard campaign={campaign} />}
    </>
  )
}
