import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { createColumnHelper } from '@tanstack/react-table'
import { useCallback, useMemo } from 'react'
import { seriesListQuery } from '@/api/queries/series'
import { useChoices } from '@/app/choices'
import { usePollMs } from '@/app/live'
import { AskedPages, atEnd } from '@/parts/AskedPages'
import { Empty } from '@/parts/Empty'
import { FilterText, FilterWord } from '@/parts/Filters'
import { Table } from '@/parts/Table'
import { When } from '@/watching/When'
import {
  count,
  looksWords,
  machineShort,
  machineWords,
  numberIn,
  pointWords,
  seriesName,
  spreadWords,
} from '@/watching/words'
import '@/watching/watching.css'
import type { SeriesRecord } from '@/watching/types'

const column = createColumnHelper<SeriesRecord>()
const ORIGINS = ['', 'results', 'import'] as const
const ORIGIN_WORDS = [
  ['', 'all'],
  ['results', 'measured here'],
  ['import', 'imported'],
] as const

const columns = [
  column.accessor((one) => `${one.metric} of ${one.benchmark}`, {
    id: 'series',
    header: 'Series',
    cell: (one) => <Name series={one.row.original} />,
  }),
  column.accessor((one) => pointWords(one.point), {
    id: 'point',
    header: 'Point',
    cell: (one) => (
      <Clip
        text={one.getValue()}
        title={[one.getValue(), pointWords(one.row.original.labels)].filter(Boolean).join(', ')}
      />
    ),
  }),
  column.accessor((one) => machineShort(one.machine), {
    id: 'machine',
    header: 'Machine',
    cell: (one) => <Clip text={one.getValue()} title={machineWords(one.row.original.machine)} />,
  }),
  column.accessor(changesWords, {
    id: 'looks',
    header: 'Looks',
    cell: (one) => <span className="nowrap">{one.getValue()}</span>,
  }),
  column.accessor((one) => numberIn(one.report, 'relative_spread'), {
    id: 'spread',
    header: 'Spread',
    meta: { right: true },
    cell: (one) => spreadWords(one.row.original),
  }),
  column.accessor('points', {
    header: 'Results',
    meta: { right: true },
    cell: (one) => one.getValue().toLocaleString('en-US'),
  }),
  column.accessor('newest', { header: 'Newest', cell: (one) => <When at={one.getValue()} /> }),
]

/** How many changes it has; without any, how it looks. */
function changesWords(series: SeriesRecord): string {
  const changes = numberIn(series.report, 'findings') ?? 0
  return changes > 0 ? count(changes, 'change') : looksWords(series)
}

function Clip({ text, title }: { text: string; title: string }) {
  return text ? (
    <span className="clip" title={title}>
      {text}
    </span>
  ) : (
    <span className="quiet">–</span>
  )
}

function Name({ series }: { series: SeriesRecord }) {
  return (
    <Link to="/series/$series" params={{ series: series.id }} className="clip wide" title={seriesName(series)}>
      {series.origin === 'import' ? (
        series.benchmark
      ) : (
        <>
          <span className="mono">{series.metric}</span> of {series.benchmark}
        </>
      )}
    </Link>
  )
}

/** The series that the filters leave. */
export function SeriesTable() {
  const { text, word, choose } = useChoices()
  const filter = {
    text: text('text'),
    benchmark: text('benchmark'),
    metric: text('metric'),
    origin: word('origin', ORIGINS),
  }
  const query = useInfiniteQuery({ ...seriesListQuery(filter), refetchInterval: usePollMs() })
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data])
  const find = useCallback((next: string) => choose({ text: next }, true), [choose])
  const isFiltered = Object.values(filter).some(Boolean)
  return (
    <>
      <search className="filters even">
        <FilterText label="Find" placeholder="benchmark, metric, point, label" value={filter.text} onChoose={find} />
        <FilterWord
          label="Origin"
          value={filter.origin}
          words={ORIGIN_WORDS}
          onChoose={(origin) => choose({ origin })}
        />
        {filter.benchmark && (
          <Only what="benchmark" value={filter.benchmark} onDrop={() => choose({ benchmark: '' })} />
        )}
        {filter.metric && <Only what="metric" value={filter.metric} onDrop={() => choose({ metric: '' })} />}
      </search>
      <AskedPages query={query} what="series">
        {rows.length === 0 ? (
          <NoSeries isFiltered={isFiltered} />
        ) : (
          <Table label="Series" rows={rows} columns={columns} keyOf={(one) => one.id} onEnd={atEnd(query)} />
        )}
      </AskedPages>
    </>
  )
}

function Only({ what, value, onDrop }: { what: string; value: string; onDrop: () => void }) {
  return (
    <button type="button" className="button" onClick={onDrop}>
      {what}: {value} <span aria-hidden="true">✕</span>
      <span className="unseen">, show all</span>
    </button>
  )
}

function NoSeries({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No series match these filters.">Change or clear the filters.</Empty>
  return (
    <Empty title="There are no series yet.">
      <p>Every result becomes a point of its series: run a benchmark, or import the history that you have.</p>
      <pre>assay run bench.yaml{'\n'}assay series import points.csv</pre>
    </Empty>
  )
}
