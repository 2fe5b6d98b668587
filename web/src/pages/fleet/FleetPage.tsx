import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { agentsQuery } from '@/api/queries/fleet'
import { overviewQuery } from '@/api/queries/session'
import { address } from '@/app/base'
import { type Choices, useChoices } from '@/app/choices'
import { usePollMs } from '@/app/live'
import { AddAgent } from '@/pages/fleet/AddAgent'
import { AgentsTable } from '@/pages/fleet/AgentsTable'
import { FleetHardware } from '@/pages/fleet/FleetHardware'
import { type Agent, fits } from '@/pages/fleet/words'
import { Empty } from '@/parts/Empty'
import { Failure } from '@/parts/Failure'
import { FilterWord, FindText } from '@/parts/Filters'
import { Loading } from '@/parts/Loading'
import { Mark } from '@/parts/Mark'
import { Page } from '@/parts/Page'
import { Tabs } from '@/parts/Tabs'
import './fleet.css'

const STATES = ['', 'active', 'busy', 'cleanup', 'draining', 'faulty'] as const
const STATE_WORDS = STATES.map((one) => [one, one || 'any'] as const)

export default function FleetPage() {
  const [isAdding, setAdding] = useState(false)
  return (
    <Page
      title="Fleet"
      lead="The machines that take jobs from this server: what they are, what they do now, and whether their numbers can be believed."
      actions={
        <button type="button" className="button primary" onClick={() => setAdding(true)}>
          Add an agent
        </button>
      }
    >
      <AddAgent open={isAdding} onClose={() => setAdding(false)} />
      <Health />
      <Agents />
    </Page>
  )
}

function Health() {
  const fleet = useQuery(overviewQuery()).data?.fleet
  if (!fleet || fleet.agents === 0) return null
  return (
    <p className="health" role="status">
      <strong>
        {fleet.agents} {fleet.agents === 1 ? 'agent' : 'agents'}
      </strong>
      <Mark tone="good" glyph="●" word={`${fleet.healthy} healthy`} />
      <Mark tone="going" glyph="▶" word={`${fleet.busy} busy`} />
      {fleet.draining > 0 && <Mark tone="unknown" glyph="↓" word={`${fleet.draining} draining`} />}
      {fleet.silent > 0 && <Mark tone="bad" glyph="✕" word={`${fleet.silent} silent`} />}
    </p>
  )
}

function Agents() {
  const choices = useChoices()
  const query = useInfiniteQuery({ ...agentsQuery(), refetchInterval: usePollMs() })
  const { hasNextPage, isFetching, fetchNextPage } = query
  // The filters look through all agents, so that all must be here.
  useEffect(() => {
    if (hasNextPage && !isFetching) void fetchNextPage()
  }, [hasNextPage, isFetching, fetchNextPage])
  if (query.isPending) return <Loading what="agents" />
  if (query.data === undefined) return <Failure error={query.error} again={() => void query.refetch()} />
  const all = query.data.pages.flatMap((page) => page.items)
  if (all.length === 0)
    return (
      <Empty title="No agent is here yet.">
        <p>
          Start one on this machine or another:{' '}
          <code>
            assay agent start --server {window.location.origin}
            {address('')}
          </code>
        </p>
      </Empty>
    )
  return (
    <>
      {query.error && <Failure error={query.error} />}
      <Filters choices={choices} />
      <Views
        agents={all.filter((agent) => fits(agent, choices.text('state'), choices.text('text')))}
        choices={choices}
      />
    </>
  )
}

function Filters({ choices }: { choices: Choices }) {
  return (
    <div className="filters">
      <FindText
        label="Find"
        placeholder="name, label, processor"
        value={choices.text('text')}
        onText={(text) => choices.choose({ text }, true)}
      />
      <FilterWord
        label="State"
        value={choices.word('state', STATES)}
        words={STATE_WORDS}
        onChoose={(state) => choices.choose({ state })}
      />
    </div>
  )
}

function Views({ agents, choices }: { agents: Agent[]; choices: Choices }) {
  if (agents.length === 0) return <Empty title="No agent fits these choices." />
  return (
    <Tabs
      label="Views"
      shown={choices.word('view', ['agents', 'hardware'])}
      onShow={(view) => choices.choose({ view: view === 'agents' ? undefined : view })}
      tabs={[
        { key: 'agents', name: 'Agents', content: <AgentsTable agents={agents} choices={choices} /> },
        { key: 'hardware', name: 'Hardware tests', content: <FleetHardware agents={agents} choices={choices} /> },
      ]}
    />
  )
}
