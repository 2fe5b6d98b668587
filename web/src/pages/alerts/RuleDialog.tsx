import { type FormEvent, useState } from 'react'
import { client, ok } from '@/api/client'
import { useAct } from '@/app/acting'
import { FIELDS, type RuleForm, ruleOf, WHEN_WORDS, WHENS } from '@/pages/alerts/rule'
import { Dialog } from '@/parts/Dialog'
import { Failure } from '@/parts/Failure'
import { Field } from '@/parts/Field'

interface RuleDialogProps {
  form: RuleForm
  isNew: boolean
  onClose: () => void
}

/** A rule to be added or changed. */
export function RuleDialog({ form: before, isNew, onClose }: RuleDialogProps) {
  const [form, setForm] = useState(before)
  const set = (next: Partial<RuleForm>) => setForm((now) => ({ ...now, ...next }))
  const act = useAct({
    ask: (given: RuleForm) =>
      ok(
        client.PUT('/api/v1/alert-rules/{name}', {
          params: { path: { name: given.name.trim() } },
          body: { benchmark: given.benchmark.trim() || '*', rule: ruleOf(given) },
        }),
      ),
    done: (kept) => `The rule ${kept.name} was saved: ${kept.says}`,
    touches: ['alerts'],
    after: onClose,
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    act.mutate(form)
  }
  return (
    <Dialog
      title={isNew ? 'Add a rule' : `Change the rule ${before.name}`}
      description="When it matches, an alert opens and notifications are sent."
      open
      onClose={onClose}
    >
      <form onSubmit={submit}>
        <div className="rule-form">
          {isNew && <Text label="Name" value={form.name} onChange={(name) => set({ name })} required />}
          <Text
            label="Benchmarks"
            hint="A name, or a pattern: chat*"
            value={form.benchmark}
            onChange={(benchmark) => set({ benchmark })}
          />
          <What form={form} set={set} />
          <Telling form={form} set={set} />
        </div>
        {act.error && <Failure error={act.error} />}
        <div className="actions">
          <button type="submit" className="button primary" disabled={act.isPending}>
            {isNew ? 'Add the rule' : 'Change the rule'}
          </button>
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  )
}

interface PartProps {
  form: RuleForm
  set: (next: Partial<RuleForm>) => void
}

const LABELS = {
  metric: ['Metric', 'Such as ttft_ms.p99; * stands for any text'],
  by: ['By at least', 'Such as 5%; any proven change when empty'],
  value: ['Limit', "A number in the metric's unit"],
  after: ['After', 'Such as 30m, 24h or 2d'],
} as const

/** What has to happen. */
function What({ form, set }: PartProps) {
  const { needed, free } = FIELDS[form.when]
  return (
    <>
      <div className="whole">
        <Field label="Open an alert when">
          {(id) => (
            <select
              id={id}
              value={form.when}
              onChange={(event) => set({ when: WHENS.find((one) => one === event.target.value) ?? 'worse' })}
            >
              {WHENS.map((one) => (
                <option key={one} value={one}>
                  {WHEN_WORDS[one]}
                </option>
              ))}
            </select>
          )}
        </Field>
      </div>
      {[...needed, ...free].map((key) => (
        <Text
          key={key}
          label={LABELS[key][0]}
          hint={LABELS[key][1]}
          value={form[key]}
          onChange={(value) => set({ [key]: value })}
          required={needed.includes(key)}
          number={key === 'value'}
        />
      ))}
    </>
  )
}

/** How notifications are sent. */
function Telling({ form, set }: PartProps) {
  return (
    <>
      <Field label="Severity">
        {(id) => (
          <select id={id} value={form.severity} onChange={(event) => set({ severity: event.target.value })}>
            <option>info</option>
            <option>warning</option>
            <option>critical</option>
          </select>
        )}
      </Field>
      <Text
        label="Channels"
        hint="Names, with commas; all when empty"
        value={form.notify}
        onChange={(notify) => set({ notify })}
      />
      <Text label="Quiet hours" hint="Such as 22:00-07:00" value={form.quiet} onChange={(quiet) => set({ quiet })} />
      {form.quiet && (
        <Text
          label="Their time zone"
          hint="Such as Europe/Luxembourg; UTC when empty"
          value={form.timezone}
          onChange={(timezone) => set({ timezone })}
        />
      )}
      <Text
        label="At most every"
        hint="Such as 1h: notify no more often"
        value={form.at_most_every}
        onChange={(at_most_every) => set({ at_most_every })}
      />
    </>
  )
}

interface TextProps {
  label: string
  value: string
  onChange: (value: string) => void
  hint?: string
  required?: boolean
  number?: boolean
}

function Text({ label, value, onChange, hint, required = false, number = false }: TextProps) {
  return (
    <Field label={required ? label : `${label} (optional)`} hint={hint}>
      {(id) => (
        <input
          id={id}
          type={number ? 'number' : 'text'}
          step="any"
          maxLength={200}
          required={required}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  )
}
