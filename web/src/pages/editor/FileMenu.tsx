import { type ChangeEvent, useRef } from 'react'
import { useTell } from '@/parts/Toasts'
import type { Format } from './reading'

interface FileMenuProps {
  text: string
  format: Format
  isChanged: boolean
  onRestart: () => void
  onOpen: (text: string, format: Format) => void
}

/** Open a file of this computer, save the text there, or start over. */
export function FileMenu({ text, format, isChanged, onRestart, onOpen }: FileMenuProps) {
  const input = useRef<HTMLInputElement>(null)
  const tell = useTell()
  const open = async (event: ChangeEvent<HTMLInputElement>) => {
    const file = event.target.files?.[0]
    event.target.value = ''
    if (!file) return
    try {
      onOpen(await file.text(), file.name.endsWith('.toml') ? 'toml' : 'yaml')
    } catch (problem) {
      tell('The file could not be opened', problem)
    }
  }
  return (
    <span className="actions">
      <input
        ref={input}
        type="file"
        accept=".yaml,.yml,.json,.toml"
        className="unseen"
        tabIndex={-1}
        aria-hidden="true"
        onChange={(event) => void open(event)}
      />
      <button type="button" className="button plain" onClick={() => input.current?.click()}>
        Open…
      </button>
      <button type="button" className="button plain" onClick={() => saveText(text, `benchmark.${format}`)}>
        Download
      </button>
      <button type="button" className="button plain" disabled={!isChanged} onClick={onRestart}>
        Start over
      </button>
    </span>
  )
}

function saveText(text: string, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 1000)
}
