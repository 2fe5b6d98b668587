import { type ReactNode, useId } from 'react'

/** A label, what it labels, and a hint or what is wrong: `<Field label="Name">{(id) => <input id={id} />}</Field>`. */
export function Field({
  label,
  hint,
  wrong,
  children,
}: {
  label: string
  hint?: string
  wrong?: string
  children: (id: string) => ReactNode
}) {
  const id = useId()
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(id)}
      {wrong ? (
        <span className="wrong" role="alert">
          {wrong}
        </span>
      ) : (
        hint && <span className="hint">{hint}</span>
      )}
    </div>
  )
}
