import { useState } from 'react'
import { Card } from '@/parts/Card'
import { Empty } from '@/parts/Empty'
import { Field } from '@/parts/Field'
import { CASES, caseOf, type Entry, shownValue, withEntry } from './cases'
import type { Plain } from './document'
import type { Format } from './reading'

interface FormCardProps {
  /** What the file holds; null while it cannot be read. */
  plain: Plain | null
  text: string
  onText: (text: string) => void
  format: Format
}

/** The most used keys of the file as a form. What is written here is written into the file, and the reverse. */
export function FormCard({ plain, text, onText, format }: FormCardProps) {
  const shown = CASES.find((one) => one.key === caseOf(plain))
  if (plain === null || shown === undefined)
    return (
      <Card title="Form">
        <NoForm plain={plain} format={format} />
      </Card>
    )
  return (
    <Card title="Form" aside={<span className="quiet">{shown.name}</span>}>
      <p className="quiet">The most used settings. What you write here appears in the file, which can do more.</p>
      <div className="entries">
        {shown.entries.map((entry) => (
          <EntryField
            key={entry.label}
            entry={entry}
            value={shownValue(plain, entry)}
            onValue={(value) => onText(withEntry(text, plain, entry, value))}
          />
        ))}
      </div>
    </Card>
  )
}

function NoForm({ plain, format }: { plain: Plain | null; format: Format }) {
  if (format === 'toml')
    return (
      <Empty title="There is no form for TOML">
        <p>Edit the file itself instead.</p>
      </Empty>
    )
  if (plain === null)
    return (
      <Empty title="The file cannot be read yet">
        <p>Its first problem is shown below it. The form comes back when it is fixed.</p>
      </Empty>
    )
  return (
    <Empty title="There is no form for this target">
      <p>There are forms for a model file, an endpoint, a service and a command.</p>
    </Empty>
  )
}

function EntryField({ entry, value, onValue }: { entry: Entry; value: string; onValue: (value: string) => void }) {
  // What is being typed stays as it is typed, even where the file writes it in another way.
  const [typed, setTyped] = useState<string | null>(null)
  const change = (next: string) => {
    setTyped(next)
    onValue(next)
  }
  const shown = typed ?? value
  return (
    <Field label={entry.label} hint={entry.hint}>
      {(id) =>
        entry.kind === 'choice' ? (
          <select id={id} value={value} onChange={(event) => onValue(event.target.value)}>
            {[...new Set([...(entry.options ?? []), value])].map((one) => (
              <option key={one} value={one}>
                {one === '' ? '(not set)' : one}
              </option>
            ))}
          </select>
        ) : (
          <input
            id={id}
            value={shown}
            inputMode={entry.kind === 'number' ? 'decimal' : 'text'}
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => change(event.target.value)}
            onBlur={() => setTyped(null)}
          />
        )
      }
    </Field>
  )
}
