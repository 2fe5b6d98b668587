import { Mark } from '@/parts/Mark'
import type { Problem } from './reading'

/** What is wrong with the file, each with its line and what to do. */
export function Problems({
  problems,
  isWaiting,
  onLine,
}: {
  problems: readonly Problem[]
  isWaiting: boolean
  onLine: (line: number) => void
}) {
  return (
    <div className="problems">
      <p role="status">{said(problems.length, isWaiting)}</p>
      {problems.length > 0 && (
        <ul>
          {problems.map((one, index) => (
            <li key={`${index} ${one.message}`}>
              {one.line ? (
                <button type="button" className="button plain" onClick={() => onLine(one.line ?? 1)}>
                  line {one.line}
                </button>
              ) : (
                <span className="quiet mono">{one.path}</span>
              )}{' '}
              {one.message}
              {one.try && <span className="quiet"> Try: {one.try}</span>}
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

function said(count: number, isWaiting: boolean) {
  if (count > 0) return <Mark tone="bad" glyph="✕" word={count === 1 ? '1 problem' : `${count} problems`} />
  if (isWaiting) return <Mark tone="unknown" glyph="…" word="being checked" />
  return <Mark tone="good" glyph="✓" word="no problem found" />
}
