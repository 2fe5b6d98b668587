import { Dialog as Radix } from 'radix-ui'
import type { ReactNode } from 'react'

interface DialogProps {
  title: string
  open: boolean
  onClose: () => void
  children: ReactNode
  description?: string
}

export function Dialog({ title, open, onClose, children, description }: DialogProps) {
  return (
    <Radix.Root
      open={open}
      onOpenChange={(is) => {
        if (!is) onClose()
      }}
    >
      <Radix.Portal>
        <Radix.Overlay className="dialog-shade" />
        <Radix.Content className="dialog" {...(description ? {} : { 'aria-describedby': undefined })}>
          <Radix.Title asChild>
            <h2>{title}</h2>
          </Radix.Title>
          {description && <Radix.Description className="quiet">{description}</Radix.Description>}
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}
