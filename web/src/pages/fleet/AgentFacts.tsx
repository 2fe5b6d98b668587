import type { ReactNode } from 'react'
import { AgentState } from '@/pages/fleet/AgentsTable'
import { type Agent, bytes, factOf } from '@/pages/fleet/words'
import { Card } from '@/parts/Card'
import { Ago } from '@/parts/Time'

/** A list of facts; one that is not known is left out. */
function Facts({ facts }: { facts: [string, ReactNode][] }) {
  const known = facts.filter(([, value]) => value !== '' && value !== null && value !== undefined)
  return (
    <dl className="facts">
      {known.map(([name, value]) => [<dt key={`${name}-name`}>{name}</dt>, <dd key={name}>{value}</dd>])}
    </dl>
  )
}

export function StateCard({ agent }: { agent: Agent }) {
  return (
    <Card title="State">
      <Facts
        facts={[
          ['State', <AgentState key="state" agent={agent} />],
          ['Healthy', agent.healthy ? 'yes: it answers and can measure' : 'no'],
          ['Last heard', <Ago key="heard" at={agent.last_seen} />],
          ['Concurrent jobs', agent.slots === 1 ? 'one job' : `${agent.slots} jobs, each on a device of its own`],
          [
            'Commands',
            agent.profile.commands
              ? 'it runs programs that a benchmark names'
              : 'refused: it was not started with --allow command',
          ],
          ['Address', agent.address],
          ['Version', agent.version],
          ['Enrolled', <Ago key="enrolled" at={agent.enrolled_at} />],
          [
            'Id',
            <span key="id" className="mono">
              {agent.id}
            </span>,
          ],
        ]}
      />
    </Card>
  )
}

export function MachineCard({ agent }: { agent: Agent }) {
  const { profile } = agent
  const gpu = profile.gpu_model
    ? `${(profile.gpus ?? 0) > 1 ? `${profile.gpus} × ` : ''}${profile.gpu_model} ${bytes(profile.gpu_memory_bytes ?? 0)}`
    : 'none found'
  return (
    <Card title="Machine">
      <Facts
        facts={[
          ['Processor', factOf(agent, 'cpu')],
          ['Cores', `${profile.cpus}`],
          ['Memory', bytes(profile.memory_bytes)],
          ['GPU', gpu],
          [
            'System',
            [profile.os, factOf(agent, 'os_version'), factOf(agent, 'architecture')].filter(Boolean).join(', '),
          ],
          ['Kernel', factOf(agent, 'kernel')],
          ['Runtimes', <Runtimes key="runtimes" agent={agent} />],
        ]}
      />
      <details>
        <summary>All facts that it reported</summary>
        <Facts
          facts={Object.keys(agent.device)
            .sort()
            .map((name) => [name, factOf(agent, name)])}
        />
      </details>
    </Card>
  )
}

/** What was tried on the machine and works, with the devices that proved themselves. */
function Runtimes({ agent }: { agent: Agent }) {
  const found = Object.entries(agent.profile.runtimes)
  if (found.length === 0) return <span className="quiet">none works here</span>
  return (
    <ul className="plain">
      {found.map(([name, version]) => {
        const devices = Object.keys(agent.profile.devices[name] ?? {})
        return (
          <li key={name}>
            {name} {version}
            {devices.length > 0 && <span className="quiet"> on {devices.join(', ')}</span>}
          </li>
        )
      })}
    </ul>
  )
}
