import { useState } from 'react'
import { useRights } from '@/app/rights'
import { Dialog } from '@/parts/Dialog'
import { useRunning, useSaving, type Written } from './acting'
import { ScheduleDialog } from './ScheduleDialog'

/** Run it now, save it, or have it run by itself. */
export function Actions({ written, isWrong }: { written: Written; isWrong: boolean }) {
  const { run, schedule } = useRunning(written)
  const { save, taken, onAnswered } = useSaving(written)
  const [isScheduling, setScheduling] = useState(false)
  const rights = useRights()
  const closed = run.isPending || save.isPending || schedule.isPending || isWrong || !rights.use
  return (
    <>
      {!rights.use && <span className="quiet">Your token can view, but not run.</span>}
      <button type="button" className="button" disabled={closed} onClick={() => setScheduling(true)}>
        Schedule…
      </button>
      <button type="button" className="button" disabled={closed} onClick={() => save.mutate(false)}>
        Save
      </button>
      <button type="button" className="button primary" disabled={closed} onClick={() => run.mutate()}>
        {run.isPending ? 'Starting…' : 'Run now'}
      </button>
      <ScheduleDialog
        open={isScheduling}
        onClose={() => setScheduling(false)}
        onWhen={(when) => schedule.mutate(when)}
      />
      <NextVersion taken={taken} onAnswered={onAnswered} onYes={() => save.mutate(true)} />
    </>
  )
}

function NextVersion({
  taken,
  onAnswered,
  onYes,
}: {
  taken: string | null
  onAnswered: () => void
  onYes: () => void
}) {
  const yes = () => {
    onAnswered()
    onYes()
  }
  return (
    <Dialog title="Save as the next version?" open={taken !== null} onClose={onAnswered} description={taken ?? ''}>
      <p>All versions are kept, and campaigns keep the one they were made from.</p>
      <div className="actions">
        <button type="button" className="button primary" onClick={yes}>
          Save as the next version
        </button>
        <button type="button" className="button" onClick={onAnswered}>
          Go back
        </button>
      </div>
    </Dialog>
  )
}
