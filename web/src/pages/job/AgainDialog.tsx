import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { type Api, client, ok } from '@/api/client'
import { documentOf } from '@/pages/job/again'
import type { Full } from '@/pages/job/words'
import { Dialog } from '@/parts/Dialog'
import { Failure } from '@/parts/Failure'
import { useTell } from '@/parts/Toasts'

interface Wish {
  whole: boolean
  sameMachine: boolean
}

async function submitAgain(full: Full, { whole, sameMachine }: Wish): Promise<Api<'CampaignSubmitted'>> {
  const { campaign, agent_name: machine } = full.summary
  if (whole) return ok(client.POST('/api/v1/campaigns/{campaign}/resubmit', { params: { path: { campaign } } }))
  const { files, labels, git } = full.document
  const body = { document: documentOf(full), files, labels, git, agent: sameMachine ? (machine ?? '') : '' }
  return ok(client.POST('/api/v1/campaigns', { body: body as never }))
}

/** Asks what is to be measured once more, and submits it as a new campaign: a result is never overwritten. */
export function AgainDialog({ full, open, onClose }: { full: Full; open: boolean; onClose: () => void }) {
  const machine = full.summary.agent_name
  const [wish, setWish] = useState<Wish>({ whole: false, sameMachine: machine !== null })
  const tell = useTell()
  const navigate = useNavigate()
  const again = useMutation({
    mutationFn: () => submitAgain(full, wish),
    onSuccess: ({ id, placement }) => {
      tell(placement.placeable ? 'Submitted as a new campaign' : `Submitted; ${placement.says}`)
      void navigate({ to: '/campaigns/$campaign', params: { campaign: id } as never })
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    again.mutate()
  }
  return (
    <Dialog
      title="Run again"
      description="A new campaign is made. This result stays as it is, so that both can be compared."
      open={open}
      onClose={onClose}
    >
      <form onSubmit={submit}>
        <fieldset className="choice">
          <legend>What</legend>
          <label>
            <input type="radio" name="what" checked={!wish.whole} onChange={() => setWish({ ...wish, whole: false })} />{' '}
            This job alone: {full.summary.label}
          </label>
          <label>
            <input type="radio" name="what" checked={wish.whole} onChange={() => setWish({ ...wish, whole: true })} />{' '}
            The whole campaign, all its jobs
          </label>
        </fieldset>
        {machine !== null && !wish.whole && (
          <p>
            <label>
              <input
                type="checkbox"
                checked={wish.sameMachine}
                onChange={(event) => setWish({ ...wish, sameMachine: event.target.checked })}
              />{' '}
              Only on the same machine, {machine}
            </label>
          </p>
        )}
        {again.error && <Failure error={again.error} />}
        <div className="actions">
          <button type="submit" className="button primary" disabled={again.isPending}>
            Run again
          </button>
          <button type="button" className="button" onClick={onClose}>
            Leave it
          </button>
        </div>
      </form>
    </Dialog>
  )
}
