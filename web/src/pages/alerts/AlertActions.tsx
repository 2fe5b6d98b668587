import { useState } from 'react'
import { useMayChange } from '@/app/acting'
import { WORDS, type Word, wordsFor } from '@/pages/alerts/life'
import { SayDialog } from '@/pages/alerts/SayDialog'
import '@/watching/watching.css'
import type { Alert } from '@/watching/types'

/** The actions that an alert allows now; where there is little room, only some of them. */
export function AlertActions({ alert, only }: { alert: Alert; only?: readonly Word[] }) {
  const [asked, setAsked] = useState<Word | null>(null)
  if (!useMayChange()) return null
  const words = wordsFor(alert).filter((one) => only === undefined || only.includes(one))
  return (
    <div className={only ? 'in-row' : 'actions'}>
      {words.map((one) => (
        <button key={one} type="button" className="button" onClick={() => setAsked(one)}>
          {WORDS[one].button}
        </button>
      ))}
      {asked && <SayDialog alert={alert} word={asked} onClose={() => setAsked(null)} />}
    </div>
  )
}
