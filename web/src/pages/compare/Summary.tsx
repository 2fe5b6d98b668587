import type { Choices } from '@/app/choices'
import { type Comparison, counted, letterOf, sentencesOf } from '@/pages/compare/records'
import { Mark } from '@/parts/Mark'

/** Why some of it is not like for like, with a way to compare anyway. */
export function NotComparable({ reasons, choices }: { reasons: string[]; choices: Choices }) {
  const isAnyway = choices.text('anyway') === 'yes'
  if (reasons.length === 0 && !isAnyway) return null
  return (
    <section className="card not-comparable" aria-labelledby="not-comparable">
      {reasons.length > 0 && (
        <h2 id="not-comparable">
          <Mark tone="warn" glyph="≠" word="Not like for like" />
        </h2>
      )}
      <ul>
        {reasons.map((one) => (
          <li key={one}>{one}</li>
        ))}
      </ul>
      <label>
        <input
          type="checkbox"
          checked={isAnyway}
          onChange={(event) => choices.choose({ anyway: event.target.checked ? 'yes' : undefined })}
        />{' '}
        Compare anyway: the difference in machine or settings is what I want to see
      </label>
    </section>
  )
}

/** For each side the answer in sentences, and how many of the rows have which answer. */
export function Summary({ found }: { found: Comparison }) {
  const others = found.sides.slice(1)
  return (
    <ul className="summary" aria-label="Answers in numbers">
      {others.map((side) => {
        const count = counted(found.rows, side.key)
        return (
          <li key={side.key} className="card">
            <p>
              <strong>{side.name}</strong> <span className="quiet">against {letterOf(0)}</span>
            </p>
            {sentencesOf(found.rows, { ...side, name: letterOf(found.sides.indexOf(side)) }).map((one) => (
              <p key={one}>{one}</p>
            ))}
            <Counts count={count} />
          </li>
        )
      })}
    </ul>
  )
}

function Counts({ count }: { count: ReturnType<typeof counted> }) {
  const { better, worse, 'cannot tell': unknown, 'not like for like': unlike } = count
  if (better + worse + unknown + unlike === 0)
    return <p className="quiet">Nothing to compare: no job is on both sides.</p>
  return (
    <p className="actions">
      <Mark tone="good" glyph="▲" word={`${better} better`} />
      <Mark tone="bad" glyph="▼" word={`${worse} worse`} />
      <Mark tone="unknown" glyph="◆" word={`${unknown} cannot tell`} square />
      {unlike > 0 && <Mark tone="warn" glyph="≠" word={`${unlike} not like for like`} />}
    </p>
  )
}

/** What else differs between the sides: it forbids nothing, and one should know it. */
export function Notes({ found }: { found: Comparison }) {
  const notes = [
    ...found.warnings,
    ...(found.left_out > 0 ? [`${found.left_out} rows are left out: choose one metric to see all of its rows`] : []),
  ]
  if (notes.length === 0) return null
  return (
    <details className="card notes">
      <summary>{notes.length === 1 ? 'One note on these results' : `${notes.length} notes on these results`}</summary>
      <ul>
        {notes.map((one) => (
          <li key={one}>{one}</li>
        ))}
      </ul>
    </details>
  )
}
