import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { client, ok } from '@/api/client'
import { useRights } from '@/app/rights'
import { AgainDialog } from '@/pages/job/AgainDialog'
import { canRetry } from '@/pages/job/again'
import type { Full } from '@/pages/job/words'
import { Dialog } from '@/parts/Dialog'
import { useTell } from '@/parts/Toasts'

/** What can be done about a job: again, cancel, compare. */
export function Actions({ full }: { full: Full }) {
  const { state, id } = full.summary
  const rights = useRights()
  return (
    <>
      {state === 'done' && (
        <Link to="/compare" search={{ side: [`job:${id}`] } as never} className="button">
          Compare
        </Link>
      )}
      {rights.use && (state === 'pending' || state === 'running') && <Cancel job={id} />}
      {rights.use && canRetry(state) && <Retry job={id} />}
      {rights.use && state === 'done' && <Again full={full} />}
    </>
  )
}

function Retry({ job }: { job: string }) {
  const tell = useTell()
  const cache = useQueryClient()
  const retry = useMutation({
    mutationFn: () => ok(client.POST('/api/v1/jobs/{job}/retry', { params: { path: { job } } })),
    onSuccess: () => tell('The job is on offer again'),
    onError: (problem) => tell('The job was not offered again', problem),
    onSettled: () => cache.invalidateQueries({ queryKey: ['job', job] }),
  })
  return (
    <button type="button" className="button primary" disabled={retry.isPending} onClick={() => retry.mutate()}>
      Run again
    </button>
  )
}

function Cancel({ job }: { job: string }) {
  const tell = useTell()
  const cache = useQueryClient()
  const [asking, setAsking] = useState(false)
  const cancel = useMutation({
    mutationFn: () => ok(client.POST('/api/v1/jobs/{job}/cancel', { params: { path: { job } } })),
    onSuccess: () => tell('The job was cancelled'),
    onError: (problem) => tell('The job was not cancelled', problem),
    onSettled: () => {
      setAsking(false)
      return cache.invalidateQueries({ queryKey: ['job', job] })
    },
  })
  return (
    <>
      <button type="button" className="button danger" onClick={() => setAsking(true)}>
        Cancel
      </button>
      <Dialog
        title="Cancel this job?"
        description="What it has measured so far is kept; it can be run again later."
        open={asking}
        onClose={() => setAsking(false)}
      >
        <div className="actions">
          <button type="button" className="button danger" disabled={cancel.isPending} onClick={() => cancel.mutate()}>
            Cancel the job
          </button>
          <button type="button" className="button" onClick={() => setAsking(false)}>
            Keep it running
          </button>
        </div>
      </Dialog>
    </>
  )
}

function Again({ full }: { full: Full }) {
  const [asking, setAsking] = useState(false)
  return (
    <>
      <button type="button" className="button primary" onClick={() => setAsking(true)}>
        Run again
      </button>
      <AgainDialog full={full} open={asking} onClose={() => setAsking(false)} />
    </>
  )
}
