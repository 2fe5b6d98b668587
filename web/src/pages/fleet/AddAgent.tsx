import { type FormEvent, useState } from 'react'
import { address } from '@/app/base'
import { useRights } from '@/app/rights'
import { useAddAgent } from '@/pages/fleet/acting'
import { Dialog } from '@/parts/Dialog'
import { Failure } from '@/parts/Failure'
import { Field } from '@/parts/Field'

/** How a machine becomes an agent: it calls this server, or this server calls it. */
export function AddAgent({ open, onClose }: { open: boolean; onClose: () => void }) {
  const { admin } = useRights()
  const here = `${window.location.origin}${address('')}`
  return (
    <Dialog
      title="Add an agent"
      description="An agent is a machine that takes jobs from this server."
      open={open}
      onClose={onClose}
    >
      <h3>On a machine that can reach this server</h3>
      <p>Install assay there and start the agent. It appears here by itself.</p>
      <pre>{`assay agent start --server ${here}`}</pre>
      <p className="quiet">
        If this server requires a token, make one with the role “agent” under Settings and give it with --token-file.
      </p>
      <h3>A machine that only this server can reach</h3>
      <p>
        Start <code>assay agent serve --listen 0.0.0.0:8081</code> on it, and enter its address here.
      </p>
      {admin ? (
        <AddressForm onDone={onClose} />
      ) : (
        <p className="quiet">Only an admin can add an agent by its address.</p>
      )}
    </Dialog>
  )
}

function AddressForm({ onDone }: { onDone: () => void }) {
  const add = useAddAgent()
  const [url, setUrl] = useState('')
  const [token, setToken] = useState('')
  const [server, setServer] = useState('')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    add.mutate({ url: url.trim(), token, server: server.trim() }, { onSuccess: onDone })
  }
  return (
    <form onSubmit={submit}>
      <Field label="Address of the agent">
        {(id) => (
          <input
            id={id}
            type="url"
            required
            maxLength={300}
            placeholder="http://device:8081"
            value={url}
            onChange={(event) => setUrl(event.target.value)}
          />
        )}
      </Field>
      <Field label="Its token" hint="If it was started with one.">
        {(id) => (
          <input
            id={id}
            type="password"
            autoComplete="off"
            value={token}
            onChange={(event) => setToken(event.target.value)}
          />
        )}
      </Field>
      <Field label="Where it finds this server" hint="If empty, the address that your browser uses.">
        {(id) => (
          <input
            id={id}
            type="url"
            placeholder={window.location.origin}
            value={server}
            onChange={(event) => setServer(event.target.value)}
          />
        )}
      </Field>
      {add.error && <Failure error={add.error} />}
      <p className="actions">
        <button type="submit" className="button primary" disabled={add.isPending}>
          {add.isPending ? 'Asking it…' : 'Add'}
        </button>
        <button type="button" className="button" onClick={onDone}>
          Cancel
        </button>
      </p>
    </form>
  )
}
