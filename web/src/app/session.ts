import { useSyncExternalStore } from 'react'

const KEY = 'assay.token'
const listeners = new Set<() => void>()

/** The token that was given on the sign-in page; empty where the server is open. */
export function token(): string {
  return sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY) ?? ''
}

/** Keep a token for this tab, or for this browser. */
export function signIn(secret: string, remember: boolean): void {
  signOutQuietly()
  ;(remember ? localStorage : sessionStorage).setItem(KEY, secret)
  for (const tell of listeners) tell()
}

/** Forget the token. */
export function signOut(): void {
  signOutQuietly()
  for (const tell of listeners) tell()
}

function signOutQuietly(): void {
  sessionStorage.removeItem(KEY)
  localStorage.removeItem(KEY)
}

/** The token, as something that a component follows. */
export function useToken(): string {
  return useSyncExternalStore((tell) => {
    listeners.add(tell)
    return () => listeners.delete(tell)
  }, token)
}
