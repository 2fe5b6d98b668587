import { type FormEvent, useState } from 'react'
import { type Role, useMakeToken } from '@/pages/settings/acting'
import { Dialog } from '@/parts/Dialog'
import { Field } from '@/parts/Field'

const ROLES: Record<Role, string> = {
  reader: 'reader: sees everything, changes nothing',
  user: 'user: also submits, cancels, answers alerts',
  agent: 'agent: takes jobs and delivers results',
  admin: 'admin: also tokens, agents, everything',
}
const DAY_S = 86_400
const LENGTHS: [string, number | null][] = [
  ['never', null],
  ['in a day', DAY_S],
  ['in 30 days', 30 * DAY_S],
  ['in 90 days', 90 * DAY_S],
  ['in a year', 365 * DAY_S],
]

const isRole = (text: string): text is Role => text in ROLES

/** Make a token; its secret is shown once and then nowhere. */
export function MakeToken() {
  const make = useMakeToken()
  const [name, setName] = useState('')
  const [role, setRole] = useState<Role>('reader')
  const [length, setLength] = useState(0)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    make.mutate(
      { name: name.trim(), role, expires_in_s: LENGTHS[length]?.[1] ?? null },
      { onSuccess: () => setName('') },
    )
  }
  return (
    <>
      <form className="filters" onSubmit={submit}>
        <Field label="Name">
          {(id) => (
            <input
              id={id}
              required
              maxLength={200}
              placeholder="who or what uses it"
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
        <Field label="Role">
          {(id) => (
            <select
              id={id}
              value={role}
              onChange={(event) => {
                if (isRole(event.target.value)) setRole(event.target.value)
              }}
            >
              {Object.entries(ROLES).map(([key, words]) => (
                <option key={key} value={key}>
                  {words}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Ends">
          {(id) => (
            <select id={id} value={length} onChange={(event) => setLength(Number(event.target.value))}>
              {LENGTHS.map(([words], at) => (
                <option key={words} value={at}>
                  {words}
                </option>
              ))}
            </select>
          )}
        </Field>
        <button type="submit" className="button primary" disabled={make.isPending}>
          Make a token
        </button>
      </form>
      <Secret name={make.data?.token.name ?? ''} secret={make.data?.secret ?? ''} onClose={make.reset} />
    </>
  )
}

function Secret({ name, secret, onClose }: { name: string; secret: string; onClose: () => void }) {
  const [isCopied, setCopied] = useState(false)
  const copy = () => void navigator.clipboard?.writeText(secret).then(() => setCopied(true))
  const close = () => {
    setCopied(false)
    onClose()
  }
  return (
    <Dialog
      title={`The secret of ${name}`}
      description="Keep it now: it is shown this one time, and the server cannot show it again."
      open={secret !== ''}
      onClose={close}
    >
      <Field label="Secret">
        {(id) => (
          <input id={id} className="mono secret" readOnly value={secret} onFocus={(event) => event.target.select()} />
        )}
      </Field>
      <p className="actions">
        <button type="button" className="button" onClick={copy}>
          {isCopied ? 'Copied ✓' : 'Copy'}
        </button>
        <button type="button" className="button primary" onClick={close}>
          I have saved it
        </button>
      </p>
    </Dialog>
  )
}
