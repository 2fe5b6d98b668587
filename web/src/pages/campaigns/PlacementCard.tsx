import { useQuery } from '@tanstack/react-query'
import type { Api } from '@/api/client'
import { placementQuery } from '@/api/queries/campaigns'
import { count } from '@/pages/campaigns/words'
import { Card } from '@/parts/Card'
import { Mark } from '@/parts/Mark'

// More agents than this are listed on demand.
const FEW = 5

/** What waits and why: which agents could take the jobs, and what the others lack. Says nothing where all is well. */
export function PlacementCard({ campaign }: { campaign: string }) {
  const placement = useQuery(placementQuery(campaign)).data
  if (placement === undefined || placement.placeable) return null
  return (
    <Card title="Jobs that no agent can take" aside={<Mark tone="warn" glyph="!" word="waiting for an agent" />}>
      <p>{placement.says}.</p>
      {placement.groups
        .filter((group) => group.agents.length < group.machines)
        .map((group) => (
          <Stuck key={group.key} group={group} />
        ))}
    </Card>
  )
}

function Stuck({ group }: { group: Api<'PlacementGroup'> }) {
  const lacking = Object.entries(group.missing)
  return (
    <>
      <h3>
        {count(group.jobs, 'job')}: {group.needs}
      </h3>
      {group.machines > 1 && (
        <p>
          They need {group.machines} agents at the same time; {group.agents.length} can take them.
        </p>
      )}
      {lacking.length === 0 ? (
        <p className="quiet">No agent is enrolled. Start one with `assay agent start`.</p>
      ) : (
        <details open={lacking.length <= FEW}>
          <summary>What {lacking.length === 1 ? 'the agent lacks' : `each of ${lacking.length} agents lacks`}</summary>
          <dl className="facts">
            {lacking.map(([agent, lacks]) => (
              <Lacks key={agent} agent={agent} lacks={lacks} />
            ))}
          </dl>
        </details>
      )}
    </>
  )
}

function Lacks({ agent, lacks }: { agent: string; lacks: readonly string[] }) {
  return (
    <>
      <dt>{agent}</dt>
      <dd>{lacks.join('; ')}</dd>
    </>
  )
}
