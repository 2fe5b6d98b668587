import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useCallback, useMemo, useState } from 'react'
import { campaignsQuery } from '@/api/queries/campaigns'
import { type Choices, useChoices } from '@/app/choices'
import { usePollMs } from '@/app/live'
import { CampaignsTable } from '@/pages/campaigns/CampaignsTable'
import { CAMPAIGN_STATES } from '@/pages/campaigns/words'
import { AskedPages } from '@/parts/AskedPages'
import { Empty } from '@/parts/Empty'
import { FilterText, FilterWord } from '@/parts/Filters'
import { Page } from '@/parts/Page'
import './campaigns.css'

const MOST_SIDES = 8

/** Everything that was ever submitted. */
export default function CampaignsPage() {
  const choices = useChoices()
  const filter = filterOf(choices)
  const query = useInfiniteQuery({ ...campaignsQuery(filter), refetchInterval: usePollMs() })
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data])
  const picked = choices.many('pick')
  // A search may hide what was picked before: when each was submitted is kept.
  const [seen] = useState(() => new Map<string, string>())
  const pick = (id: string) => {
    for (const row of rows) seen.set(row.id, row.created_at)
    const next = picked.includes(id) ? picked.filter((one) => one !== id) : [...picked, id].slice(-MOST_SIDES)
    choices.choose({ pick: next }, true)
  }
  const submitted = (id: string) => seen.get(id) ?? rows.find((row) => row.id === id)?.created_at ?? ''
  const more = () => {
    if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage()
  }
  return (
    <Page
      title="Campaigns"
      lead="A campaign is one submission of a benchmark: a set of jobs, one for each point of its matrix. The newest come first."
      actions={
        <>
          <CompareLink picked={oldestFirst(picked, submitted)} />
          <Link to="/benchmarks/new" className="button primary">
            New benchmark
          </Link>
        </>
      }
    >
      <Filters choices={choices} />
      <AskedPages query={query} what="the campaigns">
        {rows.length === 0 ? (
          <Nothing filtered={Object.keys(filter).length > 0} />
        ) : (
          <div className="card">
            <CampaignsTable rows={rows} picked={picked} onPick={pick} onEnd={more} />
          </div>
        )}
      </AskedPages>
    </Page>
  )
}

function filterOf({ text }: Choices): Record<string, string> {
  return Object.fromEntries(['state', 'benchmark', 'text'].map((key) => [key, text(key)]).filter(([, value]) => value))
}

const STATES = [['', 'any'], ...CAMPAIGN_STATES.map((state) => [state, state] as const)] as const

function Filters({ choices: { text, choose } }: { choices: Choices }) {
  const search = useCallback((next: string) => choose({ text: next.trim() }, true), [choose])
  const benchmark = text('benchmark')
  const state = STATES.find(([key]) => key === text('state'))?.[0] ?? ''
  return (
    <search className="filters">
      <FilterText label="Search" placeholder="id, benchmark, label, who" value={text('text')} onChoose={search} />
      <FilterWord label="State" value={state} words={STATES} onChoose={(next) => choose({ state: next })} />
      {benchmark && (
        <button
          type="button"
          className="button"
          onClick={() => choose({ benchmark: '' })}
          aria-label={`Show every benchmark, not only ${benchmark}`}
        >
          Only {benchmark} <span aria-hidden="true">✕</span>
        </button>
      )}
    </search>
  )
}

/** The first side is the base, so the oldest comes first. A campaign that is not loaded yet counts as old. */
function oldestFirst(picked: string[], submitted: (id: string) => string): string[] {
  const at = (id: string) => Date.parse(submitted(id)) || 0
  return [...picked].sort((one, other) => at(one) - at(other))
}

function CompareLink({ picked }: { picked: string[] }) {
  if (picked.length < 2)
    return (
      <span className="quiet">
        {picked.length === 1 ? 'Pick one more to compare.' : 'Pick two or more to compare them.'}
      </span>
    )
  return (
    <Link to="/compare" search={{ side: picked.map((id) => `campaign:${id}`) }} className="button">
      Compare {picked.length} campaigns
    </Link>
  )
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered)
    return (
      <Empty title="No campaigns match these filters.">
        <p>Search for part of an id, of a benchmark's name or of a label, or for who submitted it.</p>
      </Empty>
    )
  return (
    <Empty title="Nothing has been submitted yet.">
      <p>
        <Link to="/benchmarks/new">Write a benchmark</Link> and run it, or submit a file:{' '}
        <code>assay run bench.yaml --server …</code>
      </p>
    </Empty>
  )
}
