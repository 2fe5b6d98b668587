import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ColumnDef } from '@tanstack/react-table'
import { useMemo } from 'react'
import type { Api } from '@/api/client'
import { campaignJobsQuery } from '@/api/queries/campaigns'
import { useChoices, useSorting } from '@/app/choices'
import { JobButton } from '@/pages/campaigns/JobButton'
import { State, Verdict } from '@/parts/Mark'
import { Table } from '@/parts/Table'
import { duration } from '@/parts/Time'

type Written = Api<'WrittenAnswer'>
type Metric = Written['columns'][number]
type Line = Written['lines'][number]

interface Row {
  job: Api<'JobSummary'>
  result: Api<'ResultView'> | undefined
  line: Line | undefined
}

interface Props {
  campaign: Api<'CampaignDetail'>
  results: Api<'ResultView'>[]
  answer: Written | undefined
}

/** Every job with what it measured, the best first as long as no other order was chosen. */
export function JobsTable({ campaign, results, answer }: Props) {
  const more = useInfiniteQuery({
    ...campaignJobsQuery(campaign.id),
    enabled: campaign.jobs > campaign.job_list.length,
  })
  const jobs = useMemo(
    () => more.data?.pages.flatMap((page) => page.items) ?? campaign.job_list,
    [more.data, campaign.job_list],
  )
  const rows = useMemo(() => rowsOf(jobs, results, answer?.lines ?? []), [jobs, results, answer?.lines])
  // New columns redraw every cell and lose the focus, so they change only with the metrics.
  const metrics = JSON.stringify(answer?.columns ?? [])
  const columns = useMemo(() => columnsOf(JSON.parse(metrics)), [metrics])
  const { sorting, onSorting } = useSorting(useChoices())
  return (
    <div className="one-line">
      <Table
        label="Results of the jobs"
        rows={rows}
        columns={columns}
        keyOf={(row) => row.job.id}
        // The address may name a metric whose column has yet to come.
        sorting={sorting.filter((one) => columns.some((column) => column.id === one.id))}
        onSorting={onSorting}
        onEnd={() => {
          if (more.hasNextPage && !more.isFetchingNextPage) void more.fetchNextPage()
        }}
      />
    </div>
  )
}

function rowsOf(jobs: readonly Api<'JobSummary'>[], results: readonly Api<'ResultView'>[], lines: Line[]): Row[] {
  const byJob = new Map(results.map((one) => [one.job, one]))
  const place = new Map(lines.map((line, at) => [line.job, at]))
  const at = (job: Api<'JobSummary'>) => place.get(job.id) ?? lines.length
  return jobs
    .toSorted((a, b) => at(a) - at(b) || a.index - b.index)
    .map((job) => ({ job, result: byJob.get(job.id), line: lines[at(job)] }))
}

function columnsOf(metrics: Metric[]): ColumnDef<Row>[] {
  return [
    {
      id: 'job',
      header: 'Job',
      accessorFn: ({ job }) => job.index,
      cell: ({ row: { original: row } }) => (
        <Link to="/jobs/$job" params={{ job: row.job.id }} className="cut" title={labelOf(row)}>
          {labelOf(row)}
        </Link>
      ),
    },
    ...metrics.map(metricColumn),
    {
      id: 'verdict',
      header: 'Verdict',
      accessorFn: ({ job }) => (job.state === 'done' ? (job.verdict ?? '') : job.state),
      cell: ({ row: { original: row } }) =>
        row.job.state === 'done' ? <Verdict verdict={row.job.verdict} /> : <State state={row.job.state} />,
    },
    {
      id: 'reason',
      header: 'Main reason',
      accessorFn: reasonOf,
      cell: ({ row: { original: row } }) => <Reason {...row} />,
    },
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
      id: 'act',
      header: () => <span className="unseen">Change</span>,
      enableSorting: false,
      cell: ({ row: { original } }) => <JobButton job={original.job} />,
    },
  ]
}

/** The first metric and every score have their interval beside them. */
function metricColumn({ metric, unit, better, is_quality: isQuality }: Metric, at: number): ColumnDef<Row> {
  const arrow = better === 'lower' ? ' ↓' : better === 'higher' ? ' ↑' : ''
  const named = unit && !metric.endsWith(`_${unit}`) && !metric.includes('per_') ? `${metric}, ${unit}` : metric
  return {
    id: `metric.${metric}`,
    header: () => (
      <span title={better ? `${better} is better` : undefined}>
        {named}
        {arrow}
      </span>
    ),
    meta: { right: true },
    sortUndefined: 'last',
    accessorFn: ({ line }) => numberOf(line?.cells[at]?.value),
    cell: ({ row: { original: row } }) => {
      const cell = row.line?.cells[at]
      if (cell === undefined || numberOf(cell.value) === undefined) return <span className="quiet">–</span>
      return (
        <span className="number">
          <strong>{cell.value}</strong>{' '}
          {(at === 0 || isQuality) && <span className="quiet interval">{cell.interval} </span>}
          <span className="quiet">{cell.spread}</span>
        </span>
      )
    },
  }
}

/** The number that a text of the server shows; undefined where it shows none. */
function numberOf(shown: string | undefined): number | undefined {
  const value = Number.parseFloat((shown ?? '').replaceAll(',', ''))
  return Number.isFinite(value) ? value : undefined
}

function tookSeconds({ job }: Row): number | undefined {
  return job.started_at !== null && job.ended_at !== null ? job.ended_at - job.started_at : undefined
}

function tookText(seconds: number | undefined) {
  return seconds === undefined ? <span className="quiet">–</span> : duration(seconds)
}

function labelOf({ job, line }: Row): string {
  return job.label || line?.label || job.id
}

function reasonOf({ job, result, line }: Row): string {
  return (job.state === 'done' && (line?.reason || result?.doubts[0])) || job.reason
}

function Reason(row: Row) {
  const text = reasonOf(row)
  if (!text) return <span className="quiet">–</span>
  return (
    <span className="cut long" title={row.result?.doubts.join('\n') || text}>
      {text}
    </span>
  )
}
