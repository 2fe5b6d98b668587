import { type FormEvent, useEffect, useState } from 'react'
import { queryClient } from '@/api/cache'
import { signIn, useToken } from '@/app/session'
import { Field } from '@/parts/Field'
import './signin.css'

const REFUSED = 'The server does not know this token: it may be mistyped, revoked or expired.'

/** Asks for a token where the server wants one. */
export function SignInPage() {
  const [secret, setSecret] = useState('')
  const [remember, setRemember] = useState(false)
  // A token is stored and this page is still shown: the server refused it. What is typed next is not refused yet.
  const refused = useToken() !== '' && secret === ''
  useEffect(() => {
    document.title = 'Sign in · assay'
  }, [])
  const submit = (event: FormEvent) => {
    event.preventDefault()
    signIn(secret.trim(), remember)
    setSecret('')
    void queryClient.resetQueries()
  }
  return (
    <main className="sign-in">
      <form className="card" onSubmit={submit}>
        <p className="brand">
          <img src="./icon.svg" width="26" height="26" alt="" /> assay
        </p>
        <h1>Sign in</h1>
        <p className="quiet">This server requires a token.</p>
        <Field
          label="Token"
          wrong={refused ? REFUSED : undefined}
          hint="It stays in this tab, and is sent to this server alone."
        >
          {(id) => (
            <input
              id={id}
              type="password"
              autoComplete="current-password"
              required
              aria-invalid={refused}
              value={secret}
              onChange={(event) => setSecret(event.target.value)}
            />
          )}
        </Field>
        <label className="remember">
          <input type="checkbox" checked={remember} onChange={(event) => setRemember(event.target.checked)} /> Remember
          it in this browser
        </label>
        <button type="submit" className="button primary">
          Sign in
        </button>
        <Help />
      </form>
    </main>
  )
}

function Help() {
  return (
    <details>
      <summary>I have no token</summary>
      <p>
        The server printed one when it first started. Its administrator makes more, for readers and for people who
        change things:
      </p>
      <pre>{'assay tokens create my-name --role reader\nassay tokens create my-name --role user'}</pre>
    </details>
  )
}
