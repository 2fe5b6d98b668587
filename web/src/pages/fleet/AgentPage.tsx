import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { agentQuery } from '@/api/queries/fleet'
import { usePollMs } from '@/app/live'
import { useRights } from '@/app/rights'
import { MachineCard, StateCard } from '@/pages/fleet/AgentFacts'
import { AgentHardware } from '@/pages/fleet/AgentHardware'
import { HeldJobs, PastJobs, Queue } from '@/pages/fleet/AgentJobs'
import { useChangeAgent, useRemoveAgent, useResetAgent } from '@/pages/fleet/acting'
import { LabelsCard } from '@/pages/fleet/LabelsCard'
import type { Agent } from '@/pages/fleet/words'
import { Asked } from '@/parts/Asked'
import { Dialog } from '@/parts/Dialog'
import { Page } from '@/parts/Page'
import './fleet.css'

export default function AgentPage() {
  const { agent = '' } = useParams({ strict: false })
  const query = useQuery({ ...agentQuery(agent), refetchInterval: usePollMs() })
  return (
    <Page
      title={query.data?.name ?? 'Agent'}
      crumbs={<Link to="/fleet">Fleet</Link>}
      lead="One machine that takes jobs: its state, what it offers, and how far its numbers can be believed."
      actions={query.data && <Actions agent={query.data} />}
    >
      <Asked query={query} what="the agent">
        {(found) => <Parts agent={found} />}
      </Asked>
    </Page>
  )
}

function Parts({ agent }: { agent: Agent }) {
  return (
    <>
      <div className="cards">
        <StateCard agent={agent} />
        <MachineCard agent={agent} />
        <LabelsCard agent={agent} />
        <Queue agent={agent} />
      </div>
      <HeldJobs agent={agent} />
      <AgentHardware agent={agent} />
      <PastJobs agent={agent} />
    </>
  )
}

function Actions({ agent }: { agent: Agent }) {
  const rights = useRights()
  const change = useChangeAgent(agent.id, agent.name)
  const reset = useResetAgent(agent.id, agent.name)
  const [isRemoving, setRemoving] = useState(false)
  const compare = (
    <Link className="button" to="/compare" search={{ side: [`agent:${agent.name}`] }}>
      Compare
    </Link>
  )
  if (!rights.use) return compare
  return (
    <>
      {compare}
      {agent.state === 'faulty' && (
        <button type="button" className="button" disabled={reset.isPending} onClick={() => reset.mutate(undefined)}>
          Reset
        </button>
      )}
      {agent.draining ? (
        <button
          type="button"
          className="button"
          disabled={change.isPending}
          onClick={() => change.mutate({ draining: false })}
        >
          Let it take jobs again
        </button>
      ) : (
        <button
          type="button"
          className="button"
          disabled={change.isPending}
          title="It finishes what it holds and gets nothing new"
          onClick={() => change.mutate({ draining: true })}
        >
          Drain
        </button>
      )}
      {rights.admin && (
        <button type="button" className="button danger" onClick={() => setRemoving(true)}>
          Remove
        </button>
      )}
      <RemoveDialog agent={agent} open={isRemoving} onClose={() => setRemoving(false)} />
    </>
  )
}

function RemoveDialog({ agent, open, onClose }: { agent: Agent; open: boolean; onClose: () => void }) {
  const navigate = useNavigate()
  const remove = useRemoveAgent(agent.id, agent.name, () => navigate({ to: '/fleet' }))
  const held = agent.jobs.length
  const go = () => remove.mutate(undefined, { onError: onClose })
  return (
    <Dialog title={`Remove ${agent.name}?`} open={open} onClose={onClose}>
      <p>
        The server forgets it and its labels. Its results stay.{' '}
        {held > 0 && `${held === 1 ? 'The job' : `The ${held} jobs`} that it holds will be offered to others. `}If the
        agent still runs, it makes itself known again.
      </p>
      <p className="actions">
        <button type="button" className="button danger" disabled={remove.isPending} onClick={go}>
          Remove it
        </button>
        <button type="button" className="button" onClick={onClose}>
          Keep it
        </button>
      </p>
    </Dialog>
  )
}
