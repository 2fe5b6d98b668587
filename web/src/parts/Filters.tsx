import { useEffect, useState } from 'react'
import { Field } from '@/parts/Field'

interface FilterTextProps {
  label: string
  value: string
  onChoose: (value: string) => void
  placeholder?: string
}

const WAIT_MS = 300

/** A text to look for: it counts once the typing rests. */
export function FilterText({ label, value, onChoose, placeholder }: FilterTextProps) {
  const [draft, setDraft] = useState(value)
  const [sent, setSent] = useState(value)
  const [known, setKnown] = useState(value)
  if (value !== known) {
    setKnown(value)
    // The address changed by itself, such as by going back; what was typed since we sent it stays.
    if (value !== sent) setDraft(value)
  }
  useEffect(() => {
    if (draft === value) return
    const timer = setTimeout(() => {
      setSent(draft)
      onChoose(draft)
    }, WAIT_MS)
    return () => clearTimeout(timer)
  }, [draft, value, onChoose])
  return <FindText label={label} value={draft} onText={setDraft} placeholder={placeholder} />
}

interface FindTextProps {
  label: string
  value: string
  onText: (value: string) => void
  placeholder?: string
}

/** A text to find among the rows that are loaded: filtered on every keystroke. */
export function FindText({ label, value, onText, placeholder }: FindTextProps) {
  return (
    <Field label={label}>
      {(id) => (
        <input
          id={id}
          type="search"
          maxLength={200}
          value={value}
          placeholder={placeholder}
          onChange={(event) => onText(event.target.value)}
        />
      )}
    </Field>
  )
}

interface FilterWordProps<Word extends string> {
  label: string
  value: Word
  words: readonly (readonly [Word, string])[]
  onChoose: (value: Word) => void
}

/** One of some words. */
export function FilterWord<Word extends string>({ label, value, words, onChoose }: FilterWordProps<Word>) {
  const choose = (text: string) => {
    const found = words.find(([word]) => word === text)
    if (found) onChoose(found[0])
  }
  return (
    <Field label={label}>
      {(id) => (
        <select id={id} value={value} onChange={(event) => choose(event.target.value)}>
          {words.map(([word, name]) => (
            <option key={word} value={word}>
              {name}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}
