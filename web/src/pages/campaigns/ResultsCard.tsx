import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ColumnDef } from '@tanstack/react-table'
import { useMemo } from 'react'
import type { Api } from '@/api/client'
import { campaignJobsQuery, MOST_RESULTS } from '@/api/queries/campaigns'
import { useChoices, useSorting } from '@/app/choices'
import { metricsOf } from '@/pages/campaigns/GridCard'
import { JobButton } from '@/pages/campaigns/JobButton'
import { Card } from '@/parts/Card'
import { State, Verdict } from '@/parts/Mark'
import { Measured } from '@/parts/Measured'
import { Table } from '@/parts/Table'
import { duration } from '@/parts/Time'

interface Row {
  job: Api<'JobSummary'>
  result: Api<'ResultView'> | undefined
}

/** Every job with what it measured, as a table. */
export function ResultsCard({ campaign, results }: { campaign: Api<'CampaignDetail'>; results: Api<'ResultView'>[] }) {
  const more = useInfiniteQuery({
    ...campaignJobsQuery(campaign.id),
    enabled: campaign.jobs > campaign.job_list.length,
  })
  const jobs = useMemo(
    () => more.data?.pages.flatMap((page) => page.items) ?? campaign.job_list,
    [more.data, campaign.job_list],
  )
  const rows = useMemo(() => rowsOf(jobs, results), [jobs, results])
  const metrics = metricsOf(results).join('\n')
  // New columns redraw every cell and lose the focus, so they change only with the metrics.
  const columns = useMemo(() => columnsOf(metrics.split('\n').filter(Boolean)), [metrics])
  const sorting = useSorting(useChoices())
  return (
    <Card
      title="Results"
      aside={
        <span className="quiet">
          {results.filter((one) => one.state === 'done').length.toLocaleString('en-US')} of{' '}
          {campaign.jobs.toLocaleString('en-US')} jobs were measured
          {campaign.jobs > MOST_RESULTS
            ? `; numbers of the first ${MOST_RESULTS.toLocaleString('en-US')} are shown`
            : ''}
        </span>
      }
    >
      <div className="one-line">
        <Table
          label="Results of the jobs"
          rows={rows}
          columns={columns}
          keyOf={(row) => row.job.id}
          {...sorting}
          onEnd={() => {
            if (more.hasNextPage && !more.isFetchingNextPage) void more.fetchNextPage()
          }}
        />
      </div>
    </Card>
  )
}

function rowsOf(jobs: readonly Api<'JobSummary'>[], results: readonly Api<'ResultView'>[]): Row[] {
  const byJob = new Map(results.map((one) => [one.job, one]))
  return jobs.map((job) => ({ job, result: byJob.get(job.id) }))
}

function columnsOf(metrics: string[]): ColumnDef<Row>[] {
  return [
    {
      id: 'job',
      header: 'Job',
      accessorFn: ({ job }) => job.index,
      cell: ({
        row: {
          original: { job },
        },
      }) => (
        <Link to="/jobs/$job" params={{ job: job.id }} className="cut" title={job.label}>
          {job.label || job.id}
        </Link>
      ),
    },
    {
      id: 'state',
      header: 'State',
      accessorFn: ({ job }) => job.state,
      cell: ({
        row: {
          original: { job },
        },
      }) => <State state={job.state} />,
    },
    {
      id: 'verdict',
      header: 'Verdict',
      accessorFn: ({ job }) => job.verdict ?? '',
      cell: ({
        row: {
          original: { job },
        },
      }) => (job.state === 'done' ? <Verdict verdict={job.verdict} /> : <span className="quiet">–</span>),
    },
    ...metrics.map(metricColumn),
    {
      id: 'machine',
      header: 'Machine',
      accessorFn: ({ job, result }) => result?.machine || job.agent_name || '',
      cell: (at) => at.getValue<string>() || <span className="quiet">–</span>,
    },
    {
      id: 'took',
      header: 'Took',
      meta: { right: true },
      accessorFn: tookSeconds,
      sortUndefined: 'last',
      cell: (at) => tookText(at.getValue<number | undefined>()),
    },
    {
      id: 'doubts',
      header: 'Doubts',
      enableSorting: false,
      cell: ({ row: { original } }) => <Doubts {...original} />,
    },
    {
      id: 'act',
      header: () => <span className="unseen">Change</span>,
      enableSorting: false,
      cell: ({ row: { original } }) => <JobButton job={original.job} />,
    },
  ]
}

function metricColumn(name: string): ColumnDef<Row> {
  return {
    id: `metric.${name}`,
    header: name,
    meta: { right: true },
    sortUndefined: 'last',
    accessorFn: ({ result }) => result?.metrics[name]?.median,
    cell: ({
      row: {
        original: { result },
      },
    }) => {
      const found = result?.metrics[name]
      return found ? (
        <Measured
          value={found.median}
          unit={found.unit}
          interval={found.interval}
          better={found.better}
          runs={found.runs}
        />
      ) : (
        <span className="quiet">–</span>
      )
    },
  }
}

function tookSeconds({ job }: Row): number | undefined {
  return job.started_at !== null && job.ended_at !== null ? job.ended_at - job.started_at : undefined
}

function tookText(seconds: number | undefined) {
  return seconds === undefined ? <span className="quiet">–</span> : duration(seconds)
}

function Doubts({ job, result }: Row) {
  const doubts = result?.doubts ?? []
  const text = doubts.length > 0 ? doubts : job.reason ? [job.reason] : []
  if (text.length === 0) return <span className="quiet">–</span>
  return (
    <span className="cut long" title={text.join('\n')}>
      {text.length > 1 ? `${text.length} reasons: ` : ''}
      {text[0]}
    </span>
  )
}
