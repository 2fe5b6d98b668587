import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { ApiError } from '@/api/client'
import { fileReadQuery } from '@/api/queries/benchmarks'
import { useTell } from '@/parts/Toasts'
import type { Plain } from './document'
import { addSchedule, keepNew, keepNext, runNow } from './doing'
import type { Files, Format } from './reading'
import type { When } from './ScheduleDialog'

/** A benchmark as it is being written. */
export interface Written {
  text: string
  format: Format
  files: Files
  /** The stored benchmark that it began from. */
  stored: { name: string; version: number } | undefined
  /** It was used: the draft may go. */
  onDone: () => void
}

/** Run it now, or have it run by itself; the page of what came of it follows. */
export function useRunning(written: Written) {
  const navigate = useNavigate()
  const tell = useTell()
  const documentOf = useDocument(written)
  const { files, onDone } = written
  const run = useMutation({
    mutationFn: async () => runNow(await documentOf(), files),
    onSuccess: ({ id }) => {
      onDone()
      void navigate({ to: '/campaigns/$campaign', params: { campaign: id } })
    },
    onError: (problem) => tell('It was not started', problem),
  })
  const schedule = useMutation({
    mutationFn: async (when: When) => addSchedule({ ...(await documentOf()), schedule: when }, files),
    onSuccess: ({ id }) => {
      onDone()
      void navigate({ to: '/schedules/$schedule', params: { schedule: id } })
    },
    onError: (problem) => tell('It was not scheduled', problem),
  })
  return { run, schedule }
}

/** Save it: as a new one, or as the next version. Where there is one of its name, `taken` says so. */
export function useSaving(written: Written) {
  const navigate = useNavigate()
  const tell = useTell()
  const documentOf = useDocument(written)
  const [taken, setTaken] = useState<string | null>(null)
  const { files, stored, onDone } = written
  const save = useMutation({
    mutationFn: async (over: boolean) => {
      const document = await documentOf()
      const name = String(document.benchmark ?? '')
      if (over) return keepNext(name, document, files)
      return stored?.name === name ? keepNext(name, document, files, stored.version) : keepNew(document, files)
    },
    onSuccess: ({ name }) => {
      onDone()
      tell(`Saved: ${name}`)
      void navigate({ to: '/benchmarks/$benchmark', params: { benchmark: name } })
    },
    onError: (problem, over) => {
      const isTaken = problem instanceof ApiError && (problem.status === 409 || problem.status === 412)
      if (isTaken && !over) setTaken(problem.message)
      else tell('It was not saved', problem)
    },
  })
  return { save, taken, onAnswered: () => setTaken(null) }
}

// The document of the newest text is requested when it is needed: the text may have changed since it was last read.
function useDocument({ text, format, files }: Written): () => Promise<Plain> {
  const client = useQueryClient()
  return async () => {
    const { document, errors } = await client.fetchQuery(fileReadQuery(text, format, files))
    const [wrong] = errors
    if (wrong) throw new ApiError(422, wrong.code, wrong.message, '', wrong.try)
    if (!document) throw new ApiError(422, 'unreadable', 'the file cannot be read', '', '')
    return document
  }
}
