import { type FormEvent, useState } from 'react'
import { Dialog } from '@/parts/Dialog'
import { Field } from '@/parts/Field'

export interface When {
  cron: string
  timezone: string
}

const TIMES: readonly [string, string][] = [
  ['0 3 * * *', 'Every night at 3:00'],
  ['0 3 * * mon-fri', 'Monday to Friday at 3:00'],
  ['0 3 * * sun', 'Every Sunday at 3:00'],
  ['@hourly', 'Every hour'],
]

/** When the benchmark is to run by itself. */
export function ScheduleDialog({
  open,
  onClose,
  onWhen,
}: {
  open: boolean
  onClose: () => void
  onWhen: (when: When) => void
}) {
  const [cron, setCron] = useState(TIMES[0]?.[0] ?? '')
  const [timezone, setTimezone] = useState(() => Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    onClose()
    onWhen({ cron: cron.trim(), timezone: timezone.trim() || 'UTC' })
  }
  return (
    <Dialog
      title="Schedule it"
      open={open}
      onClose={onClose}
      description="The server submits it at these times and keeps the outcome of each. A schedule of the same name is replaced."
    >
      <form onSubmit={submit}>
        <Field label="When">
          {(id) => (
            <select
              id={id}
              value={TIMES.some(([one]) => one === cron) ? cron : ''}
              onChange={(event) => {
                if (event.target.value) setCron(event.target.value)
              }}
            >
              {TIMES.map(([one, words]) => (
                <option key={one} value={one}>
                  {words}
                </option>
              ))}
              <option value="">At other times</option>
            </select>
          )}
        </Field>
        <Field label="Cron expression" hint="Minute, hour, day, month, weekday; or @daily, @weekly, @monthly.">
          {(id) => (
            <input id={id} required value={cron} className="mono" onChange={(event) => setCron(event.target.value)} />
          )}
        </Field>
        <Field label="Time zone" hint="Local time in this zone, daylight saving included.">
          {(id) => <input id={id} value={timezone} onChange={(event) => setTimezone(event.target.value)} />}
        </Field>
        <div className="actions">
          <button type="submit" className="button primary">
            Schedule
          </button>
          <button type="button" className="button" onClick={onClose}>
            Go back
          </button>
        </div>
      </form>
    </Dialog>
  )
}
