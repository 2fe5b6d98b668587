import { type MouseEvent, type ReactNode, useState } from 'react'
import { address } from '@/app/base'
import { token } from '@/app/session'
import { useTell } from '@/parts/Toasts'

interface DownloadProps {
  /** Of the API: `/api/v1/…`. */
  path: string
  /** What the file is called where it lands. */
  name: string
  className?: string
  label?: string
  children: ReactNode
}

/** A link to a file of the server; with a token the file is fetched first, as a plain link cannot carry one. */
export function Download({ path, name, className, label, children }: DownloadProps) {
  const tell = useTell()
  const [busy, setBusy] = useState(false)
  const fetched = async (event: MouseEvent) => {
    const secret = token()
    if (!secret) return
    event.preventDefault()
    if (busy) return
    setBusy(true)
    try {
      const answer = await fetch(address(path), { headers: { Authorization: `Bearer ${secret}` } })
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`)
      hand(await answer.blob(), name)
    } catch (problem) {
      tell(`${name} could not be fetched`, problem)
    } finally {
      setBusy(false)
    }
  }
  return (
    <a
      href={address(path)}
      download={name}
      className={className}
      aria-label={label}
      aria-busy={busy}
      onClick={(event) => void fetched(event)}
    >
      {children}
    </a>
  )
}

function hand(content: Blob, name: string): void {
  const url = URL.createObjectURL(content)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
