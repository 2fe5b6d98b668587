/** What the server says of the file: what it holds, what is wrong with it, and what would happen. */
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import type { Api } from '@/api/client'
import { fileReadQuery } from '@/api/queries/benchmarks'

export type Problem = Api<'ReadProblem'>
/** Text of the file that names a local file → that file, then those beside it. */
export type Files = Record<string, Api<'JobFile'>[]>
export type Format = 'yaml' | 'toml'

export interface Reading {
  problems: readonly Problem[]
  preview: Api<'BenchmarkPreview'> | null
  /** The server has yet to say something about the newest text. */
  isWaiting: boolean
  /** Why the server could not say anything. */
  failure: unknown
}

const PAUSE_MS = 350
const NONE: readonly Problem[] = []

/** A value that follows another one once it rests. */
export function useRested<Value>(value: Value, pause = PAUSE_MS): Value {
  const [rested, setRested] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setRested(value), pause)
    return () => clearTimeout(timer)
  }, [value, pause])
  return rested
}

/** Have the newest text read, a moment after the last key. */
export function useReading(text: string, format: Format, files: Files): Reading {
  const rested = useRested(text)
  const read = useQuery({ ...fileReadQuery(rested, format, files), placeholderData: keepPreviousData })
  const isWaiting = rested !== text || read.isFetching
  return { problems: read.data?.errors ?? NONE, preview: read.data?.preview ?? null, isWaiting, failure: read.error }
}
