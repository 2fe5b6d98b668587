import { useInfiniteQuery } from '@tanstack/react-query'
import type { Api } from '@/api/client'
import { outputsQuery } from '@/api/queries/job'
import { useChoices } from '@/app/choices'
import { at, isRecord } from '@/pages/job/facts'
import { LoadFacts } from '@/pages/job/LoadFacts'
import { OneAnswer } from '@/pages/job/OneAnswer'
import { Pictures } from '@/pages/job/Pictures'
import { Scores } from '@/pages/job/Scores'
import type { Full } from '@/pages/job/words'
import { Card } from '@/parts/Card'
import { Empty } from '@/parts/Empty'
import { Failure } from '@/parts/Failure'
import { Loading } from '@/parts/Loading'
import { Mark } from '@/parts/Mark'
import { show } from '@/parts/numbers'
import { Table } from '@/parts/Table'

export type Output = Api<'Output'>

const KEPT = 'outputs.jsonl.gz'
const SERVED = ['endpoint', 'service', 'library']

/** Whether a job loads something that answers requests, or kept answers. */
export function hasAnswers(full: Full): boolean {
  const target = at(full.result.definition, 'target')
  return (isRecord(target) && SERVED.some((key) => key in target)) || keptAnswers(full)
}

function keptAnswers(full: Full): boolean {
  return full.result.runs.some((run) => KEPT in (run.files ?? {}))
}

/** Load, goodput and answers of something that answers requests. */
export function Answers({ full, version }: { full: Full; version: string }) {
  return (
    <>
      <LoadFacts full={full} />
      <Pictures job={full.summary.id} version={version} about="load" />
      <Card title="Answers">
        <p className="quiet">
          What was asked and what came back, with its times and scores. Choose one to read it; the turns of a
          conversation stand together.
        </p>
        {keptAnswers(full) ? (
          <Kept job={full.summary.id} version={version} />
        ) : (
          <Empty title="No answers were kept.">
            <p>
              Set <code>workload.keep_outputs: true</code> in the benchmark file and measure again.
            </p>
          </Empty>
        )}
      </Card>
      {keptAnswers(full) && <Scores full={full} />}
    </>
  )
}

function Kept({ job, version }: { job: string; version: string }) {
  const query = useInfiniteQuery(outputsQuery(job, version))
  if (query.data === undefined)
    return query.error ? (
      <Failure error={query.error} again={() => void query.refetch()} />
    ) : (
      <Loading what="the answers" />
    )
  const outputs = query.data.pages.flatMap((page) => page.items)
  if (outputs.length === 0) return <Empty title="The runs kept no answers." />
  const onEnd = () => {
    if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage()
  }
  return (
    <>
      <Listed outputs={outputs} onEnd={onEnd} />
      {query.hasNextPage && (
        <p>
          <button type="button" className="button" disabled={query.isFetchingNextPage} onClick={onEnd}>
            More answers
          </button>
        </p>
      )}
    </>
  )
}

const keyOf = (one: Output) => `${one.run}-${one.sample}`

function Listed({ outputs, onEnd }: { outputs: Output[]; onEnd: () => void }) {
  const { text, choose } = useChoices()
  const chosen = outputs.find((one) => keyOf(one) === text('answer'))
  const pick = (one: Output) => choose({ answer: chosen === one ? undefined : keyOf(one) })
  return (
    <div className="answers">
      {chosen && (
        <OneAnswer
          chosen={chosen}
          turns={outputs.filter((one) => one.run === chosen.run && one.session === chosen.session)}
          onClose={() => choose({ answer: undefined })}
        />
      )}
      <Table
        label="List of answers"
        rows={outputs}
        columns={columnsOf(outputs, chosen, pick)}
        keyOf={keyOf}
        onEnd={onEnd}
      />
    </div>
  )
}

type Cell = { row: { original: Output } }
const right = { right: true }

function columnsOf(outputs: Output[], chosen: Output | undefined, pick: (one: Output) => void) {
  const scores = [...new Set(outputs.flatMap((one) => Object.keys(one.scores)))]
  return [
    { id: 'run', header: 'run', accessorFn: (one: Output) => one.run + 1 },
    ...(outputs.some((one) => one.turn > 0)
      ? [
          {
            id: 'turn',
            header: 'conversation',
            accessorFn: (one: Output) => one.session * 1e6 + one.turn,
            cell: ({ row }: Cell) => `${row.original.session + 1}, turn ${row.original.turn + 1}`,
          },
        ]
      : []),
    {
      id: 'item',
      header: 'asked',
      enableSorting: false,
      cell: ({ row: { original: one } }: Cell) => (
        <button type="button" className="link-button" aria-pressed={chosen === one} onClick={() => pick(one)}>
          {short(one.prompt ?? one.item) || `answer ${one.sample}`}
        </button>
      ),
    },
    {
      id: 'outcome',
      header: 'outcome',
      accessorFn: (one: Output) => one.outcome,
      cell: ({ row: { original: one } }: Cell) => <Outcome outcome={one.outcome} />,
    },
    {
      id: 'ttft',
      header: 'first token (ms)',
      meta: right,
      accessorFn: (one: Output) => one.ttft_ms,
      cell: ({ row }: Cell) => show(row.original.ttft_ms),
    },
    {
      id: 'e2e',
      header: 'whole (ms)',
      meta: right,
      accessorFn: (one: Output) => one.e2e_ms,
      cell: ({ row }: Cell) => show(row.original.e2e_ms),
    },
    {
      id: 'tokens',
      header: 'tokens',
      meta: right,
      accessorFn: (one: Output) => one.output_tokens,
      cell: ({ row }: Cell) => row.original.output_tokens ?? '–',
    },
    ...scores.map((name) => ({
      id: `score ${name}`,
      header: name,
      meta: right,
      accessorFn: (one: Output) => one.scores[name] ?? null,
      cell: ({ row }: Cell) => show(row.original.scores[name]),
    })),
  ]
}

function short(text: string): string {
  const line = text.trim().split('\n', 1)[0] ?? ''
  return line.length > 80 ? `${line.slice(0, 79)}…` : line
}

export function Outcome({ outcome }: { outcome: string }) {
  return outcome === 'ok' ? <Mark tone="good" glyph="✓" word="ok" /> : <Mark tone="bad" glyph="✕" word={outcome} />
}
