import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { createColumnHelper } from '@tanstack/react-table'
import { useCallback, useMemo } from 'react'
import { alertsQuery } from '@/api/queries/alerts'
import { useChoices } from '@/app/choices'
import { usePollMs } from '@/app/live'
import { AlertActions } from '@/pages/alerts/AlertActions'
import { kindWords } from '@/pages/alerts/life'
import { Severity } from '@/pages/alerts/Severity'
import { AskedPages, atEnd } from '@/parts/AskedPages'
import { Empty } from '@/parts/Empty'
import { FilterText, FilterWord } from '@/parts/Filters'
import { State } from '@/parts/Mark'
import { Table } from '@/parts/Table'
import { Ago } from '@/parts/Time'
import type { Alert } from '@/watching/types'

const column = createColumnHelper<Alert>()
const STATES = ['active', 'open', 'acknowledged', 'snoozed', 'expected', 'resolved', 'all'] as const
const STATE_WORDS = [
  ['active', 'unresolved'],
  ['open', 'open'],
  ['acknowledged', 'acknowledged'],
  ['snoozed', 'snoozed'],
  ['expected', 'expected'],
  ['resolved', 'resolved'],
  ['all', 'all'],
] as const
const SEVERITIES = ['', 'info', 'warning', 'critical'] as const
const SEVERITY_WORDS = [
  ['', 'all'],
  ['info', 'info'],
  ['warning', 'warning'],
  ['critical', 'critical'],
] as const
const IN_A_ROW = ['acknowledge', 'snooze'] as const
const RANKS: Record<string, number> = { info: 0, warning: 1, critical: 2 }

const columns = [
  column.accessor((one) => RANKS[one.severity] ?? 0, {
    id: 'severity',
    header: 'Severity',
    cell: (one) => <Severity severity={one.row.original.severity} />,
  }),
  column.accessor('title', {
    header: 'What happened',
    cell: (one) => (
      <Link to="/alerts/$alert" params={{ alert: one.row.original.id }}>
        {one.getValue()}
      </Link>
    ),
  }),
  column.accessor((one) => kindWords(one.kind), { id: 'kind', header: 'Kind' }),
  column.accessor('state', {
    header: 'State',
    cell: (one) => (
      <>
        <State state={one.getValue()} />
        {one.row.original.by && <span className="quiet"> by {one.row.original.by}</span>}
      </>
    ),
  }),
  column.accessor('opened_at', { header: 'Opened', cell: (one) => <Ago at={one.getValue()} /> }),
  column.accessor('changed_at', { header: 'Changed', cell: (one) => <Ago at={one.getValue()} /> }),
  column.display({
    id: 'act',
    header: () => <span className="unseen">What to do</span>,
    cell: (one) => <AlertActions alert={one.row.original} only={IN_A_ROW} />,
  }),
]

/** The alerts that the filters leave, the newest first. */
export function AlertTable() {
  const { text, word, choose } = useChoices()
  const state = word('state', STATES)
  const filter = {
    text: text('text'),
    severity: word('severity', SEVERITIES),
    benchmark: text('benchmark'),
    state: state === 'all' ? ('' as const) : state,
  }
  const query = useInfiniteQuery({ ...alertsQuery(filter), refetchInterval: usePollMs() })
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data])
  const find = useCallback((next: string) => choose({ text: next }, true), [choose])
  return (
    <>
      <search className="filters even">
        <FilterWord
          label="State"
          value={state}
          words={STATE_WORDS}
          onChoose={(next) => choose({ state: next === 'active' ? '' : next })}
        />
        <FilterWord
          label="Severity"
          value={filter.severity}
          words={SEVERITY_WORDS}
          onChoose={(severity) => choose({ severity })}
        />
        <FilterText label="Find" placeholder="part of what it says" value={filter.text} onChoose={find} />
      </search>
      <AskedPages query={query} what="alerts">
        {rows.length === 0 ? (
          <NoAlerts isAll={state === 'active' && !filter.text && !filter.severity} />
        ) : (
          <Table label="Alerts" rows={rows} columns={columns} keyOf={(one) => one.id} onEnd={atEnd(query)} />
        )}
      </AskedPages>
    </>
  )
}

function NoAlerts({ isAll }: { isAll: boolean }) {
  if (!isAll) return <Empty title="No alerts match these filters.">Change or clear the filters.</Empty>
  return (
    <Empty title="Nothing to worry about: no alert is open.">
      <p>An alert opens when a rule matches. Rules are in benchmark files, or here for all benchmarks.</p>
      <p>
        <Link to="/alerts" search={{ tab: 'rules' }}>
          See the rules
        </Link>
      </p>
    </Empty>
  )
}
