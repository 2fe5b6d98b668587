import { type FormEvent, useState } from 'react'
import { client, ok } from '@/api/client'
import { useAct } from '@/app/acting'
import { WORDS, type Word } from '@/pages/alerts/life'
import { Dialog } from '@/parts/Dialog'
import { Failure } from '@/parts/Failure'
import { Field } from '@/parts/Field'
import type { Alert } from '@/watching/types'

const HOUR = 3600
const SPANS = [
  ['1 hour', HOUR],
  ['4 hours', 4 * HOUR],
  ['1 day', 24 * HOUR],
  ['3 days', 72 * HOUR],
  ['1 week', 168 * HOUR],
  ['4 weeks', 672 * HOUR],
] as const
const USUAL_S = 4 * HOUR

interface SayDialogProps {
  alert: Alert
  word: Word
  onClose: () => void
}
interface Said {
  why: string
  for_s: number
}

/** Say something to an alert, with a reason that its history keeps. */
export function SayDialog({ alert, word, onClose }: SayDialogProps) {
  const [why, setWhy] = useState('')
  const [span, setSpan] = useState<number>(USUAL_S)
  const { title, says, button, done } = WORDS[word]
  const act = useAct({
    ask: (said: Said) => say(alert.id, word, said),
    done: () => `${done}: ${alert.title}`,
    touches: ['alerts', 'overview', 'series', 'findings'],
    after: onClose,
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    act.mutate({ why: why.trim(), for_s: span })
  }
  return (
    <Dialog title={title} description={says} open onClose={onClose}>
      <form onSubmit={submit}>
        <p>
          <strong>{alert.title}</strong>
        </p>
        {word === 'snooze' && (
          <Field label="For how long">
            {(id) => (
              <select id={id} value={span} onChange={(event) => setSpan(Number(event.target.value))}>
                {SPANS.map(([name, seconds]) => (
                  <option key={name} value={seconds}>
                    {name}
                  </option>
                ))}
              </select>
            )}
          </Field>
        )}
        <Field label="Why (optional)" hint="Kept in the alert's history, for the others.">
          {(id) => <input id={id} maxLength={1000} value={why} onChange={(event) => setWhy(event.target.value)} />}
        </Field>
        {act.error && <Failure error={act.error} />}
        <div className="actions">
          <button type="submit" className="button primary" disabled={act.isPending}>
            {button}
          </button>
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  )
}

function say(alert: string, word: Word, { why, for_s }: Said): Promise<Alert> {
  const params = { path: { alert } }
  switch (word) {
    case 'acknowledge':
      return ok(client.POST('/api/v1/alerts/{alert}/acknowledge', { params, body: { why } }))
    case 'snooze':
      return ok(client.POST('/api/v1/alerts/{alert}/snooze', { params, body: { why, for_s } }))
    case 'expect':
      return ok(client.POST('/api/v1/alerts/{alert}/expect', { params, body: { why } }))
    case 'resolve':
      return ok(client.POST('/api/v1/alerts/{alert}/resolve', { params, body: { why } }))
    case 'reopen':
      return ok(client.POST('/api/v1/alerts/{alert}/reopen', { params, body: { why } }))
  }
}
