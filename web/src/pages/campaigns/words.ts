/** `1 job`, `12 jobs`, `no jobs`. */
export function count(number: number, noun: string): string {
  if (number === 0) return `no ${noun}s`
  return `${number.toLocaleString('en-US')} ${noun}${number === 1 ? '' : 's'}`
}

/** Values of a matrix and of labels as people read them. */
export function valueText(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === null || value === undefined) return '–'
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** `batch=8 threads=2`. */
export function pairs(of: Readonly<Record<string, unknown>>, name: (key: string) => string = (key) => key): string {
  return Object.entries(of)
    .map(([key, value]) => `${name(key)}=${valueText(value)}`)
    .join(' ')
}

export const ENDED_STATES = ['done', 'failed', 'poisoned', 'cancelled'] as const
export const JOB_STATES = [...ENDED_STATES, 'running', 'pending'] as const
export type JobState = (typeof JOB_STATES)[number]
export const CAMPAIGN_STATES = ['running', 'done', 'partial', 'failed', 'cancelled', 'interrupted'] as const

/** `7 done, 1 failed`: the states that some job is in. */
export function countsText(counts: Readonly<Record<string, number>>): string {
  const parts = JOB_STATES.flatMap((state) =>
    counts[state] ? [`${counts[state].toLocaleString('en-US')} ${state}`] : [],
  )
  return parts.join(', ') || 'no jobs'
}
