import type { Choices } from '@/app/choices'
import { count } from '@/pages/campaigns/words'
import { type Comparison, counted, letterOf, sentencesOf, undecidedOf } from '@/pages/compare/records'
import { Answer, Mark } from '@/parts/Mark'

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
        const answers = counted(found.rows, side.key)
        return (
          <li key={side.key} className="card">
            <p>
              <strong>{side.name}</strong> <span className="quiet">against {letterOf(0)}</span>
            </p>
            {sentencesOf(found.rows, { ...side, name: letterOf(found.sides.indexOf(side)) }).map((one) => (
              <p key={one}>{one}</p>
            ))}
            <Counts answers={answers} />
          </li>
        )
      })}
    </ul>
  )
}

function Counts({ answers }: { answers: ReturnType<typeof counted> }) {
  const { better, worse, 'cannot tell': unknown, 'not like for like': unlike } = answers
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

/** Why rows have no verdict: sentences that differ in their numbers alone stand once, with one of them in full. */
export function Undecided({ found }: { found: Comparison }) {
  const reasons = undecidedOf(found.rows)
  if (reasons.length === 0) return null
  return (
    <section className="card" aria-labelledby="undecided">
      <h2 id="undecided">Why some of it has no verdict</h2>
      <ul className="undecided">
        {reasons.map(({ word, rows, sentence }) => (
          <li key={sentence}>
            <Answer answer={word} /> <span className="quiet">{count(rows, 'time')}</span> {sentence}
          </li>
        ))}
      </ul>
    </section>
  )
}

/** What else differs between the sides: it forbids nothing, and one should know it. */
export function Notes({ found }: { found: Comparison }) {
  const notes = [
    ...(found.promise ? [found.promise] : []),
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
