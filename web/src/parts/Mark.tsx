export type Tone = 'good' | 'warn' | 'bad' | 'unknown' | 'going'

/** A word with a sign and a colour; the word alone says it all. */
export function Mark({
  tone,
  glyph,
  word,
  square = false,
}: {
  tone: Tone
  glyph: string
  word: string
  square?: boolean
}) {
  return (
    <span className={`mark ${tone}${square ? ' square' : ''}`}>
      <span className="glyph" aria-hidden="true">
        {glyph}
      </span>
      {word}
    </span>
  )
}

const VERDICTS: Record<string, [Tone, string]> = { valid: ['good', '✓'], suspect: ['warn', '!'], invalid: ['bad', '✕'] }

export function Verdict({ verdict }: { verdict: string | null | undefined }) {
  const [tone, glyph] = VERDICTS[verdict ?? ''] ?? (['unknown', '–'] as const)
  return <Mark tone={tone} glyph={glyph} word={verdict ?? 'not judged'} />
}

const ANSWERS: Record<string, [Tone, string]> = {
  better: ['good', '▲'],
  worse: ['bad', '▼'],
  'cannot tell': ['unknown', '◆'],
  'not like for like': ['warn', '≠'],
  base: ['unknown', '='],
}

/** Better, worse, cannot tell or not like for like: each has a look of its own. */
export function Answer({ answer }: { answer: string }) {
  const [tone, glyph] = ANSWERS[answer] ?? (['unknown', '?'] as const)
  return <Mark tone={tone} glyph={glyph} word={answer} square={answer === 'cannot tell'} />
}

const STATES: Record<string, [Tone, string]> = {
  done: ['good', '✓'],
  completed: ['good', '✓'],
  active: ['good', '●'],
  sent: ['good', '✓'],
  resolved: ['good', '✓'],
  submitted: ['good', '✓'],
  running: ['going', '▶'],
  busy: ['going', '▶'],
  cleanup: ['going', '↻'],
  sending: ['going', '▶'],
  taken: ['going', '▶'],
  pending: ['unknown', '…'],
  waiting: ['unknown', '…'],
  paused: ['unknown', '‖'],
  draining: ['unknown', '↓'],
  cancelled: ['unknown', '⊘'],
  snoozed: ['unknown', 'z'],
  expected: ['unknown', '='],
  skipped: ['unknown', '»'],
  gone: ['unknown', '–'],
  acknowledged: ['warn', '✓'],
  partial: ['warn', '◐'],
  interrupted: ['warn', '!'],
  failed: ['bad', '✕'],
  poisoned: ['bad', '☠'],
  faulty: ['bad', '✕'],
  lost: ['bad', '✕'],
  offline: ['bad', '✕'],
  open: ['bad', '!'],
  missed: ['bad', '!'],
  'given-up': ['bad', '✕'],
}

/** The state of a job, a campaign, an agent, an alert or a schedule. */
export function State({ state }: { state: string }) {
  const [tone, glyph] = STATES[state] ?? (['unknown', '·'] as const)
  return <Mark tone={tone} glyph={glyph} word={state} />
}
