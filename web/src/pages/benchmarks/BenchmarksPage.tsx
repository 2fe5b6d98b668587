import { type UseQueryResult, useInfiniteQuery, useQueries } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useCallback, useMemo } from 'react'
import type { Api } from '@/api/client'
import { benchmarksQuery, headlinesQuery } from '@/api/queries/benchmarks'
import { useChoices } from '@/app/choices'
import { type BenchmarkRow, BenchmarksTable } from '@/pages/benchmarks/BenchmarksTable'
import { AskedPages } from '@/parts/AskedPages'
import { Empty } from '@/parts/Empty'
import { Failure } from '@/parts/Failure'
import { FilterText } from '@/parts/Filters'
import { Page } from '@/parts/Page'
import './benchmarks.css'

/** The benchmarks that are stored, each with how its headline metric went lately. */
export default function BenchmarksPage() {
  const { text, choose } = useChoices()
  const query = useInfiniteQuery(benchmarksQuery(text('text')))
  const pages = useMemo(() => query.data?.pages.map((page) => page.items) ?? [], [query.data])
  const { rows, error } = useRows(pages)
  const search = useCallback((next: string) => choose({ text: next.trim() }, true), [choose])
  const more = () => {
    if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage()
  }
  return (
    <Page
      title="Benchmarks"
      lead="A benchmark is a file that says what to measure. Stored here it has a history: every version, every campaign, and a trend."
      actions={
        <Link to="/benchmarks/new" className="button primary">
          New benchmark
        </Link>
      }
    >
      <search className="filters">
        <FilterText label="Search" placeholder="part of a name" value={text('text')} onChoose={search} />
      </search>
      {error && <Failure error={error} />}
      <AskedPages query={query} what="the benchmarks">
        {rows.length === 0 ? (
          <Nothing filtered={text('text') !== ''} />
        ) : (
          <div className="card">
            <BenchmarksTable rows={rows} onEnd={more} />
          </div>
        )}
      </AskedPages>
    </Page>
  )
}

type Summary = BenchmarkRow['benchmark']
type AskedHeadlines = UseQueryResult<Api<'Listed_Headline_'>>[]

/** Each benchmark with its headline; those of one page are asked for together. */
function useRows(pages: Summary[][]): { rows: BenchmarkRow[]; error: Error | null } {
  const { items, isPending, error } = useQueries({
    queries: pages.map((page) => headlinesQuery(page.map((one) => one.name))),
    combine: together,
  })
  const rows = useMemo(() => {
    const byName = new Map(items.map((one) => [one.benchmark, one]))
    return pages.flat().map((benchmark) => ({ benchmark, headline: byName.get(benchmark.name), isPending }))
  }, [pages, items, isPending])
  return { rows, error }
}

function together(asked: AskedHeadlines) {
  return {
    items: asked.flatMap((one) => one.data?.items ?? []),
    isPending: asked.some((one) => one.isPending),
    error: asked.find((one) => one.error)?.error ?? null,
  }
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty title="No stored benchmark has a name like that." />
  return (
    <Empty title="No benchmark is stored yet.">
      <p>
        <Link to="/benchmarks/new">Write one here</Link>. Files that were submitted by <code>assay run</code> need not
        be stored: see <Link to="/campaigns">Campaigns</Link>.
      </p>
    </Empty>
  )
}
