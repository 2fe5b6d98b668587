import type { Api } from '@/api/client'
import type { Tone } from '@/parts/Mark'

/** The outcome of a job in a sentence, in the same words as in every report. */
export const MEANING: Record<string, string> = {
  valid: 'every check that could be made passed, advice apart',
  suspect: 'measured, but at least one check gives a reason to doubt the numbers',
  invalid: 'measured, but a check shows that the numbers do not mean what they seem to',
  failed: 'could not be measured; there are no numbers',
  poisoned: 'set aside: attempts at it ended badly too often',
  cancelled: 'stopped before it was measured',
  running: 'being measured now',
  pending: 'not started yet',
  'not judged': 'finished without a verdict',
}

/** Everything about one job; what its definition holds is asked for by key. */
export interface Full extends Omit<Api<'JobFull'>, 'document'> {
  document: Pick<Api<'Job'>, 'files' | 'labels' | 'git'> & { definition: object }
}

/** The outcome of a job in one word. */
export function wordOf(full: Full): string {
  return full.summary.state === 'done' ? (full.result.verdict ?? 'not judged') : full.summary.state
}

/** Changes whenever the result of a job may have: what was drawn from it is then asked for again. */
export function versionOf(full: Full): string {
  return [full.summary.state, full.summary.fence, full.result.runs.length, full.summary.ended_at ?? ''].join('/')
}

type Check = Api<'Check'>
type Sign = { tone: Tone; glyph: string; word: string }

/** How a check that did not fail is headed. */
export function checkSign(check: Check): Sign {
  return check.passed
    ? { tone: 'good', glyph: '✓', word: 'passed' }
    : { tone: 'unknown', glyph: '◆', word: 'cannot tell' }
}

const DOES: Partial<Record<Api<'Reason'>['severity'], Sign>> = {
  invalid: { tone: 'bad', glyph: '✕', word: 'invalid' },
  suspect: { tone: 'warn', glyph: '!', word: 'suspect' },
  advice: { tone: 'unknown', glyph: 'i', word: 'advice' },
}

/** The checks that failed, the main reason of the verdict first, each headed by what it does to the verdict. */
export function failedChecks({ reasons }: Pick<Full, 'reasons'>): { check: Check; sign: Sign }[] {
  return reasons.flatMap(({ severity, check }) => {
    const sign = DOES[severity]
    return sign === undefined ? [] : [{ check, sign }]
  })
}

/** The outcome of an objective; not measured is neither met nor missed. */
export function gateSign(gate: Check): Sign {
  if (gate.passed === null || gate.passed === undefined) return { tone: 'unknown', glyph: '◆', word: 'cannot tell' }
  return gate.passed ? { tone: 'good', glyph: '✓', word: 'met' } : { tone: 'bad', glyph: '✕', word: 'missed' }
}

/** Why a job has no numbers: its own error, or that of its first run that failed. */
export function failureOf(full: Full): Api<'Failure'> | null {
  return full.result.error ?? full.result.runs.find((run) => run.error)?.error ?? null
}

const WHILE: Record<string, string> = {
  prepare: 'while preparing',
  load: 'while loading',
  first: 'in the first call',
  warmup: 'while warming up',
  measure: 'while measuring',
  score: 'while reading the results',
  cleanup: 'while cleaning up',
}

/** The evidence of a failure that its message does not give. */
export function evidenceOf(error: Api<'Failure'>): string {
  const parts = [
    error.phase ? (WHILE[error.phase] ?? `in phase ${error.phase}`) : '',
    error.signal ? `signal ${error.signal}` : '',
    error.exit_code === null || error.exit_code === undefined ? '' : `exit code ${error.exit_code}`,
    error.memory_mb === null || error.memory_mb === undefined
      ? ''
      : `memory ${Math.round(error.memory_mb).toLocaleString('en-US')} MB`,
  ]
  return parts.filter((part) => part !== '' && !error.message.includes(part)).join(', ')
}

const ESCAPE = String.fromCharCode(27)
const TERMINAL_CODES = new RegExp(`${ESCAPE}\\[[0-9;?]*[ -/]*[@-~]`, 'g')

/** Text without codes that steer a terminal, or turn the direction of what follows. */
export function plain(text: string): string {
  const seen = (one: string) => (one === '\n' || one === '\t' ? one : '\ufffd')
  return text.replaceAll(TERMINAL_CODES, '').replaceAll(/[\p{Cc}\p{Bidi_Control}]/gu, seen)
}
