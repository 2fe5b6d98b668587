import { type Api, client, ok } from '@/api/client'
import { useAct } from '@/app/acting'
import { useRights } from '@/app/rights'

type Change = 'cancel' | 'retry'
const CHANGES: Record<Api<'JobSummary'>['state'], Change | null> = {
  pending: 'cancel',
  running: 'cancel',
  failed: 'retry',
  cancelled: 'retry',
  poisoned: 'retry',
  done: null,
}
const NAMES: Record<Change, string> = { cancel: 'Cancel', retry: 'Retry' }

/** Cancels a job that has not ended, or offers one again that ended without a result. */
export function JobButton({ job }: { job: Api<'JobSummary'> }) {
  const params = { params: { path: { job: job.id } } }
  const change = useAct({
    ask: (what: Change) =>
      ok(
        what === 'cancel'
          ? client.POST('/api/v1/jobs/{job}/cancel', params)
          : client.POST('/api/v1/jobs/{job}/retry', params),
      ),
    done: (answer) => `${job.label || job.id} is ${answer.state} now`,
    failed: 'The job stays as it is',
    touches: ['campaign', 'campaigns', 'jobs', 'job', 'overview'],
  })
  const may = useRights().use
  const what = CHANGES[job.state]
  if (what === null || !may) return null
  return (
    <button
      type="button"
      className="button plain"
      disabled={change.isPending}
      onClick={() => change.mutate(what)}
      aria-label={`${NAMES[what]} ${job.label || job.id}`}
    >
      {NAMES[what]}
    </button>
  )
}
