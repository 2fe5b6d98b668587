import { happeningWords } from '@/pages/alerts/life'
import { Empty } from '@/parts/Empty'
import { State } from '@/parts/Mark'
import { Ago } from '@/parts/Time'
import type { Alert } from '@/watching/types'
import { count } from '@/watching/words'

type Line = Alert['history'][number]
/** Lines of the same kind that follow each other, the newest first. */
export interface Stretch {
  newest: Line
  lines: Line[]
}

/** The history of an alert; what happened by itself many times in a row is one line. */
export function stretches(lines: readonly Line[]): Stretch[] {
  const found: Stretch[] = []
  for (const line of [...lines].reverse()) {
    const last = found.at(-1)
    const same =
      last &&
      !line.by &&
      !last.newest.by &&
      line.happening === last.newest.happening &&
      line.state === last.newest.state
    if (same) last.lines.push(line)
    else found.push({ newest: line, lines: [line] })
  }
  return found
}

/** The history of an alert, newest first: when, what, who, why. */
export function History({ lines }: { lines: readonly Line[] }) {
  if (lines.length === 0) return <Empty title="Nothing has happened yet." />
  return (
    <ol className="history">
      {stretches(lines).map((one, at) => (
        <li key={at}>
          <OfStretch stretch={one} />
        </li>
      ))}
    </ol>
  )
}

function OfStretch({ stretch: { newest, lines } }: { stretch: Stretch }) {
  const head = (
    <>
      <Ago at={newest.at} /> <State state={newest.state} />
    </>
  )
  if (lines.length === 1)
    return (
      <>
        {head}
        <div>
          {happeningWords(newest.happening)}
          {newest.by && (
            <>
              {' '}
              by <strong>{newest.by}</strong>
            </>
          )}
          {newest.why && <>: {newest.why}</>}
        </div>
      </>
    )
  return (
    <>
      {head}
      <details>
        <summary>
          {happeningWords(newest.happening)}, {count(lines.length, 'time')}
        </summary>
        <ul>
          {lines.map((one, at) => (
            <li key={at}>
              {one.why}{' '}
              <span className="quiet">
                (<Ago at={one.at} />)
              </span>
            </li>
          ))}
        </ul>
      </details>
    </>
  )
}
