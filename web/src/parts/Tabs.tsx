import { Tabs as Radix } from 'radix-ui'
import type { ReactNode } from 'react'

export interface Tab {
  key: string
  name: string
  content: ReactNode
}

/** Tabs whose choice the page keeps in its address. */
export function Tabs({
  tabs,
  shown,
  onShow,
  label,
}: {
  tabs: Tab[]
  shown: string
  onShow: (key: string) => void
  label: string
}) {
  return (
    <Radix.Root className="tabs" value={shown} onValueChange={onShow}>
      <Radix.List aria-label={label}>
        {tabs.map((one) => (
          <Radix.Trigger key={one.key} value={one.key}>
            {one.name}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {tabs.map((one) => (
        <Radix.Content key={one.key} value={one.key}>
          {one.content}
        </Radix.Content>
      ))}
    </Radix.Root>
  )
}
