import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type Api, client, ok } from '@/api/client'
import { scoresQuery } from '@/api/queries/job'
import { useRights } from '@/app/rights'
import type { Full } from '@/pages/job/words'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { Measured } from '@/parts/Measured'
import { Table } from '@/parts/Table'
import { Ago } from '@/parts/Time'
import { useTell } from '@/parts/Toasts'

interface Judged {
  scorer: string
  version: string
  at: string
  metric: string
  quality: Api<'Quality'>
}

/** Scores that were computed after the result: the kept answers judged once more, nothing measured again. */
export function Scores({ full }: { full: Full }) {
  const job = full.summary.id
  const query = useQuery(scoresQuery(job))
  const rights = useRights()
  return (
    <Card title="Scores added later" aside={rights.use ? <Judge job={job} /> : undefined}>
      <p className="quiet">The kept answers can be judged again at any time. The result itself stays as it is.</p>
      <Asked query={query} what="the scores">
        {(found) => <Listed records={found.items} />}
      </Asked>
    </Card>
  )
}

function Judge({ job }: { job: string }) {
  const tell = useTell()
  const cache = useQueryClient()
  const judge = useMutation({
    mutationFn: () =>
      ok(client.POST('/api/v1/jobs/{job}/scores', { params: { path: { job } }, body: { scorers: [] } })),
    onSuccess: () => tell('The answers were judged again'),
    onError: (problem) => tell('The answers were not judged', problem),
    onSettled: () => cache.invalidateQueries({ queryKey: ['job-scores', job] }),
  })
  return (
    <button type="button" className="button" disabled={judge.isPending} onClick={() => judge.mutate()}>
      Judge the answers again
    </button>
  )
}

type Cell = { row: { original: Judged } }

const COLUMNS = [
  { id: 'scorer', header: 'scorer', accessorFn: (one: Judged) => one.scorer },
  { id: 'metric', header: 'metric', accessorFn: (one: Judged) => one.metric },
  {
    id: 'mean',
    header: 'mean [interval]',
    enableSorting: false,
    cell: ({
      row: {
        original: { quality },
      },
    }: Cell) => (
      <Measured
        value={quality.statistics.mean}
        unit={quality.statistics.unit}
        interval={quality.interval}
        better={quality.statistics.better}
        runs={quality.statistics.runs}
      />
    ),
  },
  {
    id: 'at',
    header: 'when',
    accessorFn: (one: Judged) => one.at,
    cell: ({ row }: Cell) => <Ago at={row.original.at} />,
  },
  { id: 'version', header: 'judged by', accessorFn: (one: Judged) => one.version },
]

function Listed({ records }: { records: Api<'ScoreRecord'>[] }) {
  const rows: Judged[] = records.flatMap((one) =>
    Object.entries(one.metrics).map(([metric, quality]) => ({
      scorer: one.scorer,
      version: one.version,
      at: one.computed_at,
      metric,
      quality,
    })),
  )
  if (rows.length === 0) return <p className="quiet">No scores were added.</p>
  return (
    <Table
      label="List of scores"
      rows={rows}
      columns={COLUMNS}
      keyOf={(one) => `${one.at} ${one.scorer} ${one.metric}`}
    />
  )
}
