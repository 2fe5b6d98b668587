import { isRecord } from '@/pages/job/facts'
import type { Full } from '@/pages/job/words'

type Json = Record<string, unknown>

/** What the whole has, where the part has something too: a definition without the defaults. */
export function onlyWritten(whole: unknown, part: unknown): unknown {
  if (!isRecord(whole) || !isRecord(part)) return whole
  return Object.fromEntries(
    Object.keys(part)
      .filter((key) => key in whole)
      .map((key) => [key, onlyWritten(whole[key], part[key])]),
  )
}

/** A benchmark with the point of one job alone; its files are named as they were submitted, not as an agent placed them. */
export function documentOf(full: Full): Json {
  const definition = onlyWritten(full.document.definition, full.result.definition)
  return { benchmark: full.summary.benchmark, ...(isRecord(definition) ? definition : {}) }
}

/** States in which a job itself can be offered again. */
export function canRetry(state: string): boolean {
  return state === 'failed' || state === 'cancelled' || state === 'poisoned'
}
