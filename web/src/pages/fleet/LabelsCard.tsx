import { type FormEvent, useState } from 'react'
import { useRights } from '@/app/rights'
import { useChangeAgent } from '@/pages/fleet/acting'
import type { Agent } from '@/pages/fleet/words'
import { Card } from '@/parts/Card'
import { Field } from '@/parts/Field'

/** The labels of an agent; those given on the server can be changed here. */
export function LabelsCard({ agent }: { agent: Agent }) {
  const { use } = useRights()
  const change = useChangeAgent(agent.id, agent.name)
  const own = Object.entries(agent.profile.labels ?? {}).filter(([key]) => !(key in agent.labels))
  const given = Object.entries(agent.labels)
  return (
    <Card title="Labels">
      <p className="quiet">
        A benchmark can ask for a label: <code>needs: {'{labels: {rack: quiet}}'}</code>.
      </p>
      {own.length + given.length === 0 && <p>It has no labels.</p>}
      <ul className="labels plain">
        {own.map(([key, value]) => (
          <li key={key} className="label-chip" title="The agent itself brought it">
            {key}={value}
          </li>
        ))}
        {given.map(([key, value]) => (
          <li key={key} className="label-chip given">
            {key}={value}
            {use && (
              <button
                type="button"
                aria-label={`Remove the label ${key}=${value}`}
                disabled={change.isPending}
                onClick={() => change.mutate({ labels: { [key]: null } })}
              >
                ✕
              </button>
            )}
          </li>
        ))}
      </ul>
      {use && <AddLabel busy={change.isPending} onAdd={(key, value) => change.mutate({ labels: { [key]: value } })} />}
    </Card>
  )
}

function AddLabel({ busy, onAdd }: { busy: boolean; onAdd: (key: string, value: string) => void }) {
  const [text, setText] = useState('')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const at = text.indexOf('=')
    onAdd(text.slice(0, at).trim(), text.slice(at + 1).trim())
    setText('')
  }
  return (
    <form className="filters" onSubmit={submit}>
      <Field label="New label">
        {(id) => (
          <input
            id={id}
            required
            pattern="\s*[^=\s]+\s*=\s*\S.*"
            title="key=value"
            placeholder="rack=quiet"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        )}
      </Field>
      <button type="submit" className="button" disabled={busy}>
        Add
      </button>
    </form>
  )
}
