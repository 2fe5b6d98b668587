import { useQueries, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ColumnDef } from '@tanstack/react-table'
import type { Api } from '@/api/client'
import { placementQuery } from '@/api/queries/campaigns'
import { agentJobsQuery, pendingJobsQuery } from '@/api/queries/fleet'
import { jobQuery } from '@/api/queries/job'
import { usePollMs } from '@/app/live'
import { standingOf, standingText } from '@/pages/campaigns/progress'
import type { Agent } from '@/pages/fleet/words'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { Empty } from '@/parts/Empty'
import { Failure } from '@/parts/Failure'
import { State, Verdict } from '@/parts/Mark'
import { Table } from '@/parts/Table'
import { Ago, duration } from '@/parts/Time'

type Job = Api<'JobSummary'>

/** What it measures at this moment, with how far each job is. */
export function HeldJobs({ agent }: { agent: Agent }) {
  const queries = useQueries({ queries: agent.jobs.map((job) => jobQuery(job)) })
  return (
    <Card title="Job now">
      {agent.jobs.length === 0 && (
        <p className="quiet">It holds no job{agent.draining ? ' and gets none while it drains' : ''}.</p>
      )}
      {agent.jobs.map((id, at) => {
        const query = queries[at]
        return query?.data ? (
          <Held key={id} job={query.data.summary} />
        ) : query?.error ? (
          <Failure key={id} error={query.error} />
        ) : (
          <p key={id}>
            <Link to="/jobs/$job" params={{ job: id }}>
              {id}
            </Link>
          </p>
        )
      })}
    </Card>
  )
}

function Held({ job }: { job: Job }) {
  const share = job.progress?.share
  return (
    <p className="held">
      <State state={job.state} />
      <Link to="/jobs/$job" params={{ job: job.id }}>
        {job.benchmark}
        {job.label && `: ${job.label}`}
      </Link>
      {job.progress && <span className="quiet">{standingText(standingOf(job))}</span>}
      {typeof share === 'number' && (
        <progress className="share" max={1} value={share} aria-label={`How far ${job.id} is`} />
      )}
    </p>
  )
}

// Campaigns that are asked who can take their jobs: the queue of a busy server may have hundreds.
const MOST_CAMPAIGNS = 8

/** Jobs that wait and that this agent could take, by campaign. */
export function Queue({ agent }: { agent: Agent }) {
  const pending = useQuery({ ...pendingJobsQuery(), refetchInterval: usePollMs() })
  const campaigns = [...new Set(pending.data?.items.map((job) => job.campaign))].slice(0, MOST_CAMPAIGNS)
  const placed = useQueries({ queries: campaigns.map((campaign) => placementQuery(campaign)) })
  const suited = campaigns.flatMap((campaign, at) => {
    const groups = placed[at]?.data?.groups.filter((group) => group.agents.includes(agent.name)) ?? []
    const waiting = groups.reduce((sum, group) => sum + group.waiting, 0)
    return waiting > 0 ? [{ campaign, waiting, needs: groups.map((group) => group.needs).join('; ') }] : []
  })
  return (
    <Card title="Queue">
      <Asked query={pending} what="the queue">
        {(page) => (
          <>
            <p className="quiet">
              {suited.length === 0
                ? nothing(page.items.length, agent)
                : 'Waiting jobs that this agent can take; other agents may take them first.'}
            </p>
            <ul className="plain">
              {suited.map((one) => (
                <li key={one.campaign}>
                  <Link to="/campaigns/$campaign" params={{ campaign: one.campaign }}>
                    {one.campaign}
                  </Link>
                  : {one.waiting} waiting <span className="quiet">({one.needs})</span>
                </li>
              ))}
            </ul>
            {campaigns.length === MOST_CAMPAIGNS && (
              <p className="quiet">Only the newest {MOST_CAMPAIGNS} campaigns that wait were looked at.</p>
            )}
          </>
        )}
      </Asked>
    </Card>
  )
}

function nothing(waiting: number, agent: Agent): string {
  if (waiting === 0) return 'No job waits.'
  return agent.draining
    ? 'It is draining and takes no more jobs from the queue.'
    : 'Jobs are waiting, but none that this agent can take: each campaign says what is missing.'
}

/** The newest jobs that it held. */
export function PastJobs({ agent }: { agent: Agent }) {
  const query = useQuery(agentJobsQuery(agent.id))
  return (
    <Card title="Its newest jobs">
      <Asked query={query} what="jobs">
        {(page) =>
          page.items.length === 0 ? (
            <Empty title="It has not had a job yet." />
          ) : (
            <Table label={`Jobs of ${agent.name}`} rows={page.items} columns={COLUMNS} keyOf={(job) => job.id} />
          )
        }
      </Asked>
    </Card>
  )
}

const COLUMNS: ColumnDef<Job, unknown>[] = [
  {
    id: 'job',
    header: 'Job',
    accessorFn: (job) => job.label || job.id,
    cell: ({ row: { original: job } }) => (
      <Link to="/jobs/$job" params={{ job: job.id }}>
        {job.label || job.id}
      </Link>
    ),
  },
  { id: 'benchmark', header: 'Benchmark', accessorFn: (job) => job.benchmark },
  {
    id: 'state',
    header: 'State',
    accessorFn: (job) => job.state,
    cell: ({ row }) => <State state={row.original.state} />,
  },
  {
    id: 'verdict',
    header: 'Verdict',
    accessorFn: (job) => job.verdict ?? '',
    cell: ({ row }) => <Verdict verdict={row.original.verdict} />,
  },
  {
    id: 'took',
    header: 'Took',
    accessorFn: took,
    meta: { right: true },
    sortUndefined: 'last',
    cell: ({ row }) => {
      const seconds = took(row.original)
      return seconds === undefined ? '–' : duration(seconds)
    },
  },
  {
    id: 'ended',
    header: 'Ended',
    accessorFn: (job) => job.ended_at ?? undefined,
    sortUndefined: 'last',
    cell: ({ row }) => <Ago at={row.original.ended_at} />,
  },
]

function took(job: Job): number | undefined {
  return typeof job.ended_at === 'number' && typeof job.started_at === 'number'
    ? job.ended_at - job.started_at
    : undefined
}
