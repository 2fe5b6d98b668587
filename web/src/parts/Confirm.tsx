import { type ReactNode, useState } from 'react'
import { Dialog } from '@/parts/Dialog'
import '@/watching/watching.css'

interface ConfirmProps {
  /** What the button says. */
  word: string
  /** The question. */
  title: string
  /** What will happen. */
  children: ReactNode
  onConfirm: () => void
  danger?: boolean
  disabled?: boolean
}

/** A button that asks once more before it does something that cannot be taken back. */
export function Confirm({ word, title, children, onConfirm, danger = false, disabled = false }: ConfirmProps) {
  const [open, setOpen] = useState(false)
  const close = () => setOpen(false)
  return (
    <>
      <button
        type="button"
        className={`button${danger ? ' danger' : ''}`}
        disabled={disabled}
        onClick={() => setOpen(true)}
      >
        {word}
      </button>
      <Dialog title={title} open={open} onClose={close}>
        {children}
        <div className="actions">
          <button
            type="button"
            className={`button ${danger ? 'danger' : 'primary'}`}
            onClick={() => {
              close()
              onConfirm()
            }}
          >
            {word}
          </button>
          <button type="button" className="button" onClick={close}>
            Leave it as it is
          </button>
        </div>
      </Dialog>
    </>
  )
}
