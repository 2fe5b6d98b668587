import { useSyncExternalStore } from 'react'

export type Theme = 'system' | 'light' | 'dark'
const KEY = 'assay.theme'
const listeners = new Set<() => void>()
const system = window.matchMedia?.('(prefers-color-scheme: dark)')

export function chosenTheme(): Theme {
  const kept = localStorage.getItem(KEY)
  return kept === 'light' || kept === 'dark' ? kept : 'system'
}

/** What is shown now: the choice, or what the system prefers. */
export function shownTheme(): 'light' | 'dark' {
  const chosen = chosenTheme()
  if (chosen !== 'system') return chosen
  return system?.matches ? 'dark' : 'light'
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = shownTheme()
}

export function chooseTheme(theme: Theme): void {
  if (theme === 'system') localStorage.removeItem(KEY)
  else localStorage.setItem(KEY, theme)
  changed()
}

function changed(): void {
  applyTheme()
  for (const tell of listeners) tell()
}

system?.addEventListener('change', changed)

function subscribe(tell: () => void): () => void {
  listeners.add(tell)
  return () => listeners.delete(tell)
}

export function useTheme(): { chosen: Theme; shown: 'light' | 'dark' } {
  const chosen = useSyncExternalStore(subscribe, chosenTheme)
  const shown = useSyncExternalStore(subscribe, shownTheme)
  return { chosen, shown }
}
