import { Link, useNavigate } from '@tanstack/react-router'
import { type Api, client, ok } from '@/api/client'
import { useAct } from '@/app/acting'
import { useRights } from '@/app/rights'
import { Downloads } from '@/pages/campaigns/Downloads'
import { count } from '@/pages/campaigns/words'
import { Confirm } from '@/parts/Confirm'

const TOUCHED = ['campaign', 'campaigns', 'campaign-results', 'jobs', 'job', 'overview', 'placement']

/** What can be done with a campaign as a whole. */
export function CampaignActions({ campaign }: { campaign: Api<'CampaignDetail'> }) {
  return (
    <>
      <Downloads campaign={campaign.id} />
      <Link to="/compare" search={{ side: [`campaign:${campaign.id}`] }} className="button">
        Compare
      </Link>
      {useRights().use && <Changes campaign={campaign} />}
    </>
  )
}

function Changes({ campaign: { id, state, counts } }: { campaign: Api<'CampaignDetail'> }) {
  const { cancel, retry, again, remove } = useChanges(id)
  const retriable = (counts.failed ?? 0) + (counts.cancelled ?? 0) + (counts.poisoned ?? 0)
  const open = (counts.pending ?? 0) + (counts.running ?? 0)
  const busy = cancel.isPending || retry.isPending || again.isPending || remove.isPending
  return (
    <>
      {retriable > 0 && (
        <button type="button" className="button" disabled={busy} onClick={() => retry.mutate()}>
          Retry {count(retriable, 'job')}
        </button>
      )}
      <button type="button" className="button" disabled={busy} onClick={() => again.mutate()}>
        Run again
      </button>
      {state === 'running' ? (
        <Confirm word="Cancel" title="Cancel this campaign?" danger disabled={busy} onConfirm={() => cancel.mutate()}>
          <p>
            {count(open, 'job')} of {id} will not be measured. What has been measured stays.
          </p>
        </Confirm>
      ) : (
        <Confirm
          word="Remove"
          title={`Remove campaign ${id}?`}
          danger
          disabled={busy}
          onConfirm={() => remove.mutate()}
        >
          <p>Its jobs, results and samples are removed for good.</p>
        </Confirm>
      )}
    </>
  )
}

function useChanges(campaign: string) {
  const navigate = useNavigate()
  const params = { params: { path: { campaign } } }
  const cancel = useAct({
    ask: () => ok(client.POST('/api/v1/campaigns/{campaign}/cancel', params)),
    done: (answer) => `Cancelled ${count(answer.jobs.length, 'job')}`,
    failed: 'The campaign was not cancelled',
    touches: TOUCHED,
  })
  const retry = useAct({
    ask: () => ok(client.POST('/api/v1/campaigns/{campaign}/retry', params)),
    done: (answer) => `Offered ${count(answer.jobs.length, 'job')} again`,
    failed: 'Nothing was offered again',
    touches: TOUCHED,
  })
  const again = useAct({
    ask: () => ok(client.POST('/api/v1/campaigns/{campaign}/resubmit', params)),
    done: (answer) => `Submitted again as ${answer.id}: ${answer.placement.says}`,
    failed: 'It was not submitted again',
    touches: TOUCHED,
    after: (answer) => void navigate({ to: '/campaigns/$campaign', params: { campaign: answer.id } }),
  })
  const remove = useAct({
    ask: () => ok(client.DELETE('/api/v1/campaigns/{campaign}', params)),
    done: () => `Removed ${campaign}`,
    failed: 'It was not removed',
    touches: ['campaigns', 'overview'],
    after: () => void navigate({ to: '/campaigns' }),
  })
  return { cancel, retry, again, remove }
}
