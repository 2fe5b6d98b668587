import { Link } from '@tanstack/react-router'
import type { ColumnDef } from '@tanstack/react-table'
import type { Api } from '@/api/client'
import { flat } from '@/pages/job/facts'
import type { Full } from '@/pages/job/words'
import { Card } from '@/parts/Card'
import { Empty } from '@/parts/Empty'
import { Mark, type Tone } from '@/parts/Mark'
import { Table } from '@/parts/Table'
import { Ago, duration } from '@/parts/Time'

type Attempt = Api<'AttemptRecord'>
type Event = Api<'EventRecord'>
type Evidence = Api<'EvidenceView'>

const STATES: Record<string, [Tone, string]> = {
  leased: ['going', '▶'],
  delivered: ['good', '✓'],
  expired: ['bad', '!'],
  crashed: ['bad', '✕'],
  released: ['unknown', '↩'],
  cancelled: ['unknown', '⊘'],
}

/** Who tried the job and how that went, what happened in which order, and what was kept without being counted. */
export function History({ full }: { full: Full }) {
  return (
    <>
      <Card title="Attempts">
        <p className="quiet">
          One try at the job by one agent, under one lease. A lease that is not renewed in time is lost, and the job is
          offered again.
        </p>
        {full.attempts.length > 0 ? (
          <Table
            label="List of attempts"
            rows={full.attempts}
            columns={attemptColumns(full)}
            keyOf={(one) => String(one.fence)}
          />
        ) : (
          <Empty title="No attempt yet." />
        )}
      </Card>
      {full.evidence.length > 0 && (
        <Card title="Kept and not counted">
          <p className="quiet">
            Results that came late, twice, or were replaced. They are evidence and change no number.
          </p>
          <Table
            label="Results that were not counted"
            rows={full.evidence}
            columns={EVIDENCE}
            keyOf={(one) => `${one.fence} ${one.at}`}
          />
        </Card>
      )}
      <Card title="What happened">
        {full.history.length > 0 ? (
          <Table label="List of events" rows={full.history} columns={EVENTS} keyOf={(one) => String(one.id)} />
        ) : (
          <Empty title="Nothing was recorded." />
        )}
      </Card>
    </>
  )
}

/** The name of an agent where the job tells it; else its id. */
function agentName(full: Full, agent: string): string {
  return agent === full.summary.agent ? (full.summary.agent_name ?? agent) : agent
}

function attemptColumns(full: Full): ColumnDef<Attempt, unknown>[] {
  return [
    { id: 'fence', header: 'attempt', accessorFn: (one) => one.fence },
    {
      id: 'agent',
      header: 'agent',
      accessorFn: (one) => agentName(full, one.agent),
      cell: ({ row: { original: one } }) => (
        <Link to="/fleet/$agent" params={{ agent: one.agent } as never}>
          {agentName(full, one.agent)}
        </Link>
      ),
    },
    {
      id: 'state',
      header: 'ended as',
      accessorFn: (one) => one.state,
      cell: ({ row }) => <AttemptState state={row.original.state} />,
    },
    {
      id: 'leased',
      header: 'begun',
      accessorFn: (one) => one.leased_at,
      cell: ({ row }) => <Ago at={row.original.leased_at} />,
    },
    { id: 'took', header: 'took', meta: { right: true }, accessorFn: took, cell: ({ row }) => tookText(row.original) },
    {
      id: 'log',
      header: 'log',
      enableSorting: false,
      cell: ({ row }) => (
        <Link to="." search={{ tab: 'log', attempt: row.original.fence } as never}>
          Lines of attempt {row.original.fence}
        </Link>
      ),
    },
  ]
}

function took(one: Attempt): number | null {
  return one.ended_at === null ? null : one.ended_at - one.leased_at
}

function tookText(one: Attempt): string {
  const seconds = took(one)
  return seconds === null ? 'running' : duration(seconds)
}

function AttemptState({ state }: { state: string }) {
  const [tone, glyph] = STATES[state] ?? (['unknown', '·'] as const)
  return <Mark tone={tone} glyph={glyph} word={state === 'leased' ? 'running' : state} />
}

/** What belongs to an event, in the words of this page; an agent whose name is shown needs no id. */
function detailOf(event: Event): string {
  const facts = flat(event.detail)
  const named = facts.some((one) => one.path === 'name')
  const shown = facts.filter((one) => !(named && one.path === 'agent'))
  return shown.map((one) => `${WORDS[one.path] ?? one.path}: ${one.value}`).join(' · ')
}

const WORDS: Record<string, string> = { fence: 'attempt', name: 'agent' }
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })

/** A moment to the second: the order of events and the time between them count here. */
function Moment({ at }: { at: number }) {
  const date = new Date(at * 1000)
  return (
    <time dateTime={date.toISOString()} className="nowrap">
      {whole.format(date)}
    </time>
  )
}

const EVENTS: ColumnDef<Event, unknown>[] = [
  { id: 'at', header: 'when', accessorFn: (one) => one.at, cell: ({ row }) => <Moment at={row.original.at} /> },
  { id: 'kind', header: 'what', accessorFn: (one) => one.kind },
  { id: 'detail', header: 'with', enableSorting: false, cell: ({ row }) => detailOf(row.original) },
]

const EVIDENCE: ColumnDef<Evidence, unknown>[] = [
  { id: 'fence', header: 'attempt', accessorFn: (one) => one.fence },
  { id: 'agent', header: 'agent', accessorFn: (one) => one.agent },
  { id: 'at', header: 'when', accessorFn: (one) => one.at, cell: ({ row }) => <Ago at={row.original.at} /> },
  { id: 'reason', header: 'why it does not count', accessorFn: (one) => one.reason },
]
