import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { createColumnHelper } from '@tanstack/react-table'
import { useCallback, useMemo } from 'react'
import type { Api } from '@/api/client'
import { schedulesQuery } from '@/api/queries/schedules'
import { useMayChange } from '@/app/acting'
import { useChoices } from '@/app/choices'
import { usePollMs } from '@/app/live'
import { AddSchedule } from '@/pages/schedules/AddSchedule'
import { ScheduleActions } from '@/pages/schedules/ScheduleActions'
import { Times } from '@/pages/schedules/Times'
import { AskedPages, atEnd } from '@/parts/AskedPages'
import { Empty } from '@/parts/Empty'
import { FilterText, FilterWord } from '@/parts/Filters'
import { State } from '@/parts/Mark'
import { Page } from '@/parts/Page'
import { Table } from '@/parts/Table'
import { Ago } from '@/parts/Time'

type Schedule = Api<'ScheduleView'>
const column = createColumnHelper<Schedule>()
const STATES = ['', 'active', 'paused'] as const
const STATE_WORDS = [
  ['', 'all'],
  ['active', 'active'],
  ['paused', 'paused'],
] as const

const columns = [
  column.accessor('name', {
    header: 'Benchmark',
    cell: (one) => (
      <Link to="/schedules/$schedule" params={{ schedule: one.row.original.id }}>
        {one.getValue()}
      </Link>
    ),
  }),
  column.accessor('state', { header: 'State', cell: (one) => <State state={one.getValue()} /> }),
  column.accessor((one) => String(one.schedule.cron ?? ''), {
    id: 'times',
    header: 'Runs',
    cell: (one) => <Times schedule={one.row.original.schedule} />,
  }),
  column.accessor((one) => one.next[0]?.starts ?? null, {
    id: 'next',
    header: 'Next',
    cell: (one) => <Ago at={one.getValue()} />,
  }),
  column.accessor((one) => one.last?.due ?? null, {
    id: 'last',
    header: 'Last',
    cell: (one) => <Last schedule={one.row.original} />,
  }),
  column.display({
    id: 'act',
    header: () => <span className="unseen">What to do</span>,
    cell: (one) => <ScheduleActions schedule={one.row.original} />,
  }),
]

function Last({ schedule: { last } }: { schedule: Schedule }) {
  if (last === null) return <span className="quiet">not yet</span>
  return (
    <>
      <Ago at={last.due} /> <State state={last.outcome} />
      {last.campaign && (
        <>
          {' '}
          <Link to="/campaigns/$campaign" params={{ campaign: last.campaign }}>
            {last.campaign_state ?? 'campaign'}
          </Link>
        </>
      )}
    </>
  )
}

/** The benchmarks that run by themselves. */
export default function SchedulesPage() {
  const { text, word, choose } = useChoices()
  const filter = { state: word('state', STATES), text: text('text') }
  const query = useInfiniteQuery({ ...schedulesQuery(filter), refetchInterval: usePollMs() })
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data])
  const find = useCallback((next: string) => choose({ text: next }, true), [choose])
  const may = useMayChange()
  return (
    <Page
      title="Schedules"
      lead="Benchmarks that the server runs by itself, at the times that you set; each time becomes a campaign."
      actions={
        may && (
          <button type="button" className="button primary" onClick={() => choose({ add: 'yes' })}>
            Add a schedule
          </button>
        )
      }
    >
      <search className="filters even">
        <FilterWord label="State" value={filter.state} words={STATE_WORDS} onChoose={(state) => choose({ state })} />
        <FilterText label="Find" placeholder="benchmark" value={filter.text} onChoose={find} />
      </search>
      <AskedPages query={query} what="schedules">
        {rows.length === 0 ? (
          <NoSchedules isFiltered={filter.state !== '' || filter.text !== ''} />
        ) : (
          <Table label="Schedules" rows={rows} columns={columns} keyOf={(one) => one.id} onEnd={atEnd(query)} />
        )}
      </AskedPages>
      {may && text('add') && (
        <AddSchedule benchmark={text('benchmark')} onClose={() => choose({ add: '', benchmark: '' })} />
      )}
    </Page>
  )
}

function NoSchedules({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No schedules match these filters.">Change or clear the filters.</Empty>
  return (
    <Empty title="Nothing runs by itself yet.">
      <p>
        Put a stored benchmark on a schedule here, or hand in a file that has a section <code>schedule</code>:
      </p>
      <pre>assay schedules add nightly.yaml --server URL</pre>
    </Empty>
  )
}
