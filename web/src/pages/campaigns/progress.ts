import type { Api } from '@/api/client'

/** The steps of one run, in their order, and what each does. */
export const PHASES = [
  ['prepare', 'files are fetched and checked'],
  ['load', 'the target is started, cold'],
  ['first', 'the first unit of work'],
  ['warmup', 'until the times settle; not counted'],
  ['measure', 'the samples that count'],
  ['score', 'the outputs are judged'],
  ['cleanup', 'what was started is ended'],
] as const

export interface Standing {
  /** Counts from 1; null where its agent has not said. */
  run: number | null
  runs: number | null
  phase: string
  /** How much of the job's runs is over, from 0 to 1; null where its agent has not said. */
  share: number | null
}

/** The newest word of a job's agent. */
export function standingOf(job: Pick<Api<'JobSummary'>, 'progress'>): Standing {
  const reported = job.progress ?? {}
  const number = (key: string) => (typeof reported[key] === 'number' ? reported[key] : null)
  const [run, runs] = [number('run'), number('runs')]
  const phase = typeof reported.phase === 'string' ? reported.phase : ''
  if (run === null || runs === null || runs <= 0) return { run: null, runs: null, phase, share: null }
  return { run: Math.min(run + 1, runs), runs, phase, share: Math.min(run / runs, 1) }
}

/** `run 2 of 5, measure`. */
export function standingText({ run, runs, phase }: Standing): string {
  return [run === null ? '' : `run ${run} of ${runs}`, phase].filter(Boolean).join(', ') || 'started'
}

/** `run 2 of 5, measure 40 %: 812 requests, 9.8/s, ttft 12 ms`: how far a job is, and what it measures now. */
export function momentText(job: Pick<Api<'JobSummary'>, 'progress'>): string {
  const { share, note } = job.progress ?? {}
  const part = typeof share === 'number' && share > 0 ? ` ${Math.round(share * 100)} %` : ''
  return `${standingText(standingOf(job))}${part}${typeof note === 'string' && note ? `: ${note}` : ''}`
}

/** How many running jobs are in which phase; those that have not said stand under an empty name. */
export function byPhase(jobs: readonly Pick<Api<'JobSummary'>, 'state' | 'progress'>[]): Map<string, number> {
  const found = new Map<string, number>()
  for (const job of jobs) {
    if (job.state !== 'running') continue
    const { phase } = standingOf(job)
    found.set(phase, (found.get(phase) ?? 0) + 1)
  }
  return found
}
