import { useId, useState } from 'react'
import { cronWords, MISSED, OVERLAP, PRESETS, type ScheduleForm } from '@/pages/schedules/times'
import { Field } from '@/parts/Field'
import { FilterWord } from '@/parts/Filters'

const ZONES = ['UTC', ...Intl.supportedValuesOf('timeZone')]

interface TimesFormProps {
  form: ScheduleForm
  onChange: (form: ScheduleForm) => void
}

/** When, and what happens if something is in the way. */
export function TimesForm({ form, onChange }: TimesFormProps) {
  const set = (next: Partial<ScheduleForm>) => onChange({ ...form, ...next })
  return (
    <>
      <Cron cron={form.cron} onChange={(cron) => set({ cron })} />
      <Zone zone={form.timezone} onChange={(timezone) => set({ timezone })} />
      <Field label="Random delay up to (optional)" hint="Such as 10m: not everything starts at the same moment.">
        {(id) => (
          <input id={id} value={form.jitter} maxLength={40} onChange={(event) => set({ jitter: event.target.value })} />
        )}
      </Field>
      <FilterWord
        label="When the server was not running"
        value={form.missed}
        words={MISSED}
        onChoose={(missed) => set({ missed })}
      />
      <FilterWord
        label="When the previous campaign is still running"
        value={form.overlap}
        words={OVERLAP}
        onChoose={(overlap) => set({ overlap })}
      />
    </>
  )
}

function Cron({ cron, onChange }: { cron: string; onChange: (cron: string) => void }) {
  const isPreset = PRESETS.some(([one]) => one === cron)
  const [own, setOwn] = useState(!isPreset || cron === '')
  const choose = (next: string) => {
    setOwn(next === '')
    if (next) onChange(next)
  }
  return (
    <>
      <Field label="Run it">
        {(id) => (
          <select id={id} value={own ? '' : cron} onChange={(event) => choose(event.target.value)}>
            {PRESETS.map(([one, name]) => (
              <option key={one} value={one}>
                {name}
              </option>
            ))}
          </select>
        )}
      </Field>
      {own && (
        <Field
          label="Times"
          hint={`Minute, hour, day, month, weekday; such as 30 6 1,15 * *${cronWords(cron) ? `. This is ${cronWords(cron)}` : ''}`}
        >
          {(id) => (
            <input
              id={id}
              className="mono"
              required
              maxLength={500}
              value={cron}
              onChange={(event) => onChange(event.target.value)}
            />
          )}
        </Field>
      )}
    </>
  )
}

function Zone({ zone, onChange }: { zone: string; onChange: (zone: string) => void }) {
  const list = useId()
  return (
    <Field label="Time zone" hint="Local time in this zone, daylight saving included.">
      {(id) => (
        <>
          <input
            id={id}
            list={list}
            required
            maxLength={100}
            value={zone}
            onChange={(event) => onChange(event.target.value)}
          />
          <datalist id={list}>
            {ZONES.map((one) => (
              <option key={one} value={one} />
            ))}
          </datalist>
        </>
      )}
    </Field>
  )
}
