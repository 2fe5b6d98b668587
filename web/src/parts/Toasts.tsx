import { Toast } from 'radix-ui'
import { createContext, type ReactNode, useCallback, useContext, useState } from 'react'
import { ApiError } from '@/api/client'

interface Message {
  id: number
  title: string
  text: string
  bad: boolean
}
type Tell = (title: string, problem?: unknown) => void

const Telling = createContext<Tell>(() => undefined)
let count = 0

/** Tell the user what was done, or, with a problem, why it was not. */
export function useTell(): Tell {
  return useContext(Telling)
}

export function Toasts({ children }: { children: ReactNode }) {
  const [toasts, setToasts] = useState<Message[]>([])
  const tell = useCallback<Tell>((title, problem) => {
    const text =
      problem instanceof ApiError
        ? [problem.message, problem.try_].filter(Boolean).join('. Try: ')
        : problem
          ? String(problem)
          : ''
    count += 1
    setToasts((before) => [...before.slice(-3), { id: count, title, text, bad: problem !== undefined }])
  }, [])
  return (
    <Telling.Provider value={tell}>
      <Toast.Provider duration={8000}>
        {children}
        {toasts.map((one) => (
          <Toast.Root
            key={one.id}
            className={`toast${one.bad ? ' bad' : ''}`}
            onOpenChange={(open) => {
              if (!open) setToasts((all) => all.filter((other) => other.id !== one.id))
            }}
          >
            <Toast.Title asChild>
              <strong>{one.title}</strong>
            </Toast.Title>
            {one.text && <Toast.Description>{one.text}</Toast.Description>}
          </Toast.Root>
        ))}
        <Toast.Viewport className="toasts" />
      </Toast.Provider>
    </Telling.Provider>
  )
}
