import { Link, useRouterState } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { client, ok } from '@/api/client'
import { useAct, useMayChange } from '@/app/acting'
import { useChoices } from '@/app/choices'
import { numbersOf } from '@/pages/series/trend'
import { Confirm } from '@/parts/Confirm'
import { Empty } from '@/parts/Empty'
import { Answer, State } from '@/parts/Mark'
import type { KnownFinding } from '@/watching/types'
import { When } from '@/watching/When'
import { answerWords, changeWords, count, levelWords, momentUtc, sentence, valueWords } from '@/watching/words'

/** The changes of one series, the newest first, with the numbers that they have in the chart. */
export function Changes({ findings }: { findings: readonly KnownFinding[] }) {
  const { text, choose } = useChoices()
  const numbers = numbersOf(findings)
  const withGone = text('gone') === 'yes'
  const gone = findings.filter((one) => one.state === 'gone').length
  const shown = findings.filter((one) => withGone || one.state !== 'gone')
  return (
    <>
      {shown.length === 0 && (
        <Empty title="No change was found.">
          Every new result is analysed: a difference beyond chance appears here, with its likely cause.
        </Empty>
      )}
      {shown.map((one) => (
        <Change key={one.id} known={one} number={numbers.get(one.id) ?? 0} />
      ))}
      {gone > 0 && (
        <button
          type="button"
          className="button plain"
          aria-pressed={withGone}
          onClick={() => choose({ gone: withGone ? '' : 'yes' })}
        >
          {withGone ? 'Hide' : 'Show'} {count(gone, 'change')} that went away with more results
        </button>
      )}
    </>
  )
}

function Change({ known, number }: { known: KnownFinding; number: number }) {
  const { finding, triage, series } = known
  const isChosen = useRouterState({ select: (state) => state.location.hash }) === `finding-${known.id}`
  const place = useRef<HTMLElement>(null)
  // The address may name a change that was not there yet when the page came.
  useEffect(() => {
    if (isChosen) place.current?.scrollIntoView?.({ block: 'center' })
  }, [isChosen])
  const doubts = finding.because.filter((one) => !triage.because.includes(one))
  const level = (value: number) => (
    <strong className="number">{levelWords(value, finding.difference_interval, series.unit)}</strong>
  )
  return (
    <article className={`change${isChosen ? ' chosen' : ''}`} id={`finding-${known.id}`} ref={place}>
      <h3>
        {number > 0 && (
          <span className="change-number" title={`Number ${number} in the chart`}>
            {number}
          </span>
        )}{' '}
        <Answer answer={answerWords(finding)} /> <span className="number">{changeWords(finding, series.unit)}</span>{' '}
        <State state={known.state} />
      </h3>
      <p>
        {finding.kind === 'drift' ? 'It drifted' : 'It stepped'} from {level(finding.before)} to {level(finding.after)}
        {series.better ? ` (${series.better} is better)` : ''}, first seen <When at={known.first_bad.at} />,{' '}
        {momentUtc(known.first_bad.at)}.{doubts.map((one) => ` ${sentence(one)}`)}
      </p>
      <p>
        <strong>Likely cause: {triage.cause}.</strong> {triage.because.map(sentence).join(' ')}
      </p>
      <Differs differs={triage.differs} />
      <div className="actions">
        <Sides known={known} />
        <Expect known={known} />
      </div>
    </article>
  )
}

function Differs({ differs }: { differs: KnownFinding['triage']['differs'] }) {
  if (differs === undefined || differs.length === 0) return null
  return (
    <div className="change-table">
      <table className="table">
        <thead>
          <tr>
            <th scope="col">What differs</th>
            <th scope="col">before</th>
            <th scope="col">after</th>
            <th scope="col">changed elsewhere</th>
          </tr>
        </thead>
        <tbody>
          {differs.map((one) => (
            <tr key={one.name}>
              <td>{one.name}</td>
              <td className="mono">{valueWords(one.before)}</td>
              <td className="mono">{valueWords(one.after)}</td>
              <td>{one.elsewhere ? `${one.elsewhere} ×, without effect` : 'never'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** The results on both sides of a change, and the two held against each other. */
function Sides({ known }: { known: KnownFinding }) {
  const [good, bad] = [known.last_good.job, known.first_bad.job]
  return (
    <>
      {good && (
        <Link to="/jobs/$job" params={{ job: good }}>
          last result before
        </Link>
      )}
      {bad && (
        <Link to="/jobs/$job" params={{ job: bad }}>
          first result after
        </Link>
      )}
      {good && bad && (
        <Link to="/compare" search={{ side: [`job:${good}`, `job:${bad}`] }}>
          compare the two
        </Link>
      )}
    </>
  )
}

/** Take a change as meant. */
export function Expect({ known }: { known: KnownFinding }) {
  const may = useMayChange()
  const act = useAct({
    ask: () => ok(client.POST('/api/v1/findings/{finding}/expect', { params: { path: { finding: known.id } } })),
    done: () => 'The change is expected: the series restarts there',
    failed: 'The change was not marked as expected',
    touches: ['series', 'findings', 'alerts', 'overview'],
  })
  if (!may || known.state !== 'open') return null
  return (
    <Confirm
      word="Mark as expected"
      title="Was this change meant?"
      onConfirm={() => act.mutate()}
      disabled={act.isPending}
    >
      <p>
        The series then restarts from the new level, and alerts about this change are resolved. This cannot be taken
        back.
      </p>
    </Confirm>
  )
}
