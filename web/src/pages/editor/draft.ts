import { useState } from 'react'

const keyOf = (name: string) => `assay.draft.${name}`

/** A text that survives a reload of the tab until it was used. */
export function useDraft(
  name: string,
  start: string,
): { text: string; setText: (text: string) => void; restart: () => void } {
  const [text, show] = useState(() => sessionStorage.getItem(keyOf(name)) ?? start)
  const setText = (next: string) => {
    show(next)
    if (next === start) sessionStorage.removeItem(keyOf(name))
    else sessionStorage.setItem(keyOf(name), next)
  }
  return { text, setText, restart: () => setText(start) }
}
