import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { createColumnHelper } from '@tanstack/react-table'
import { useCallback, useMemo } from 'react'
import { findingsQuery } from '@/api/queries/series'
import { useChoices } from '@/app/choices'
import { usePollMs } from '@/app/live'
import { Expect } from '@/pages/series/Changes'
import { AskedPages, atEnd } from '@/parts/AskedPages'
import { Empty } from '@/parts/Empty'
import { FilterText, FilterWord } from '@/parts/Filters'
import { Answer, State } from '@/parts/Mark'
import { Table } from '@/parts/Table'
import type { KnownFinding } from '@/watching/types'
import { When } from '@/watching/When'
import { answerWords, changeWords, pointWords, seriesName, seriesTitle } from '@/watching/words'

const column = createColumnHelper<KnownFinding>()
const STATES = ['open', 'expected', 'gone', 'all'] as const
const STATE_WORDS = [
  ['open', 'open'],
  ['expected', 'expected'],
  ['gone', 'gone with more results'],
  ['all', 'all'],
] as const

const columns = [
  column.accessor((one) => answerWords(one.finding), {
    id: 'answer',
    header: 'Answer',
    cell: (one) => <Answer answer={one.getValue()} />,
  }),
  column.accessor((one) => seriesName(one.series), {
    id: 'series',
    header: 'Series',
    cell: (one) => <Name known={one.row.original} />,
  }),
  column.accessor((one) => one.finding.change ?? one.finding.difference, {
    id: 'change',
    header: 'Change',
    meta: { right: true },
    cell: (one) => <Size known={one.row.original} />,
  }),
  column.accessor((one) => one.triage.cause, {
    id: 'cause',
    header: 'Likely cause',
    cell: (one) => <span className="nowrap">{one.getValue()}</span>,
  }),
  column.accessor((one) => one.first_bad.at, {
    id: 'since',
    header: 'Since',
    cell: (one) => <When at={one.getValue()} />,
  }),
  column.accessor('state', { header: 'State', cell: (one) => <State state={one.getValue()} /> }),
  column.display({
    id: 'act',
    header: () => <span className="unseen">What to do</span>,
    cell: (one) => (
      <div className="in-row">
        <Expect known={one.row.original} />
      </div>
    ),
  }),
]

function Name({ known: { id, series } }: { known: KnownFinding }) {
  return (
    <>
      <Link
        to="/series/$series"
        params={{ series: series.id }}
        hash={`finding-${id}`}
        className="clip wide"
        title={seriesName(series)}
      >
        {seriesTitle({ ...series, point: {} })}
      </Link>
      <span className="clip wide quiet">{pointWords(series.point)}</span>
    </>
  )
}

/** How large a change is, and below it where that may lie. */
function Size({ known }: { known: KnownFinding }) {
  const [size, ...interval] = changeWords(known.finding, known.series.unit).split(' [')
  return (
    <>
      <strong className="number">{size}</strong>
      <div className="number quiet">[{interval.join(' [')}</div>
    </>
  )
}

const ofOneState = columns.filter((one) => !('accessorKey' in one && one.accessorKey === 'state'))

/** Every change that was found, the newest first. */
export function FindingsTable() {
  const { text, word, choose } = useChoices()
  const state = word('state', STATES)
  const benchmark = text('benchmark')
  const query = useInfiniteQuery({
    ...findingsQuery({ benchmark, state: state === 'all' ? '' : state }),
    refetchInterval: usePollMs(),
  })
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data])
  const find = useCallback((next: string) => choose({ benchmark: next }, true), [choose])
  return (
    <>
      <search className="filters even">
        <FilterWord
          label="State"
          value={state}
          words={STATE_WORDS}
          onChoose={(next) => choose({ state: next === 'open' ? '' : next })}
        />
        <FilterText label="Benchmark" placeholder="its whole name" value={benchmark} onChoose={find} />
      </search>
      <AskedPages query={query} what="changes">
        {rows.length === 0 ? (
          <Empty
            title={state === 'open' ? 'No open change: everything is as it was.' : 'No changes match these filters.'}
          >
            A change that a series shows appears here, with its size, its doubt and its likely cause.
          </Empty>
        ) : (
          <Table
            label="Changes"
            rows={rows}
            columns={state === 'all' ? columns : ofOneState}
            keyOf={(one) => one.id}
            onEnd={atEnd(query)}
          />
        )}
      </AskedPages>
    </>
  )
}
