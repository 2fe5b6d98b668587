import { Link } from '@tanstack/react-router'
import type { ColumnDef } from '@tanstack/react-table'
import { type Choices, useSorting } from '@/app/choices'
import { type Agent, factOf, labelsOf, machineWords, stateOf } from '@/pages/fleet/words'
import { State } from '@/parts/Mark'
import { Table } from '@/parts/Table'
import { Ago } from '@/parts/Time'

/** All agents that fit, one row each. */
export function AgentsTable({ agents, choices }: { agents: Agent[]; choices: Choices }) {
  const order = useSorting(choices, 'name')
  return (
    <div className="card">
      <Table label="Agents" rows={agents} columns={COLUMNS} keyOf={(agent) => agent.id} {...order} />
    </div>
  )
}

const COLUMNS: ColumnDef<Agent, unknown>[] = [
  {
    id: 'name',
    header: 'Agent',
    accessorFn: (agent) => agent.name,
    cell: ({ row: { original: agent } }) => (
      <Link to="/fleet/$agent" params={{ agent: agent.id }}>
        {agent.name}
      </Link>
    ),
  },
  { id: 'state', header: 'State', accessorFn: stateOf, cell: ({ row }) => <AgentState agent={row.original} /> },
  {
    id: 'machine',
    header: 'Machine',
    accessorFn: machineWords,
    cell: ({ row: { original: agent } }) => <Machine agent={agent} />,
  },
  {
    id: 'labels',
    header: 'Labels',
    accessorFn: (agent) => labelsOf(agent).join(' '),
    enableSorting: false,
    cell: ({ row }) => <Labels labels={labelsOf(row.original)} />,
  },
  {
    id: 'jobs',
    header: 'Job now',
    accessorFn: (agent) => agent.jobs.length,
    cell: ({ row }) => <Held jobs={row.original.jobs} />,
  },
  {
    id: 'heard',
    header: 'Last heard',
    accessorFn: (agent) => -agent.seconds_since_heartbeat,
    cell: ({ row }) => <Ago at={row.original.last_seen} />,
  },
  { id: 'version', header: 'Version', accessorFn: (agent) => agent.version },
]

function Machine({ agent }: { agent: Agent }) {
  return (
    <>
      {machineWords(agent)}
      <br />
      <span className="quiet">{factOf(agent, 'cpu')}</span>
    </>
  )
}

/** The state of an agent in words: what it does, whether it drains, and why it is faulty. */
export function AgentState({ agent }: { agent: Agent }) {
  return (
    <>
      <State state={agent.state} />
      {agent.draining && (
        <>
          {' '}
          <State state="draining" />
        </>
      )}
      {agent.note && <div className="quiet">{agent.note}</div>}
    </>
  )
}

export function Labels({ labels }: { labels: string[] }) {
  if (labels.length === 0) return <span className="quiet">–</span>
  return (
    <span className="labels">
      {labels.map((one) => (
        <span key={one} className="label-chip">
          {one}
        </span>
      ))}
    </span>
  )
}

export function Held({ jobs }: { jobs: string[] }) {
  if (jobs.length === 0) return <span className="quiet">none</span>
  return (
    <>
      {jobs.map((job) => (
        <div key={job}>
          <Link className="mono nowrap" to="/jobs/$job" params={{ job }}>
            {job}
          </Link>
        </div>
      ))}
    </>
  )
}
