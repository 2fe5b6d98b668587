import { useQuery } from '@tanstack/react-query'
import type { Api } from '@/api/client'
import { headlineQuery } from '@/api/queries/job'
import { Progress } from '@/pages/job/Progress'
import {
  checkSign,
  evidenceOf,
  type Full,
  failedChecks,
  failureOf,
  gateSign,
  MEANING,
  plain,
  versionOf,
  wordOf,
} from '@/pages/job/words'
import { Card } from '@/parts/Card'
import { Failure } from '@/parts/Failure'
import { Mark, State, Verdict } from '@/parts/Mark'
import { Measured } from '@/parts/Measured'

/** Whether the numbers of a job can be believed, in plain words, before any of them. */
export function Judgement({ full }: { full: Full }) {
  const word = wordOf(full)
  const { state } = full.summary
  const ended = full.summary.ended_at !== null
  return (
    <Card title="Verdict">
      <p className="verdict-line">
        {state === 'done' ? <Verdict verdict={full.result.verdict} /> : <State state={state} />}
        <span>{MEANING[word] ?? word}.</span>
        {ended && (
          <span className="quiet">
            {full.result.successful_runs} of {full.result.total_runs} runs succeeded.
          </span>
        )}
      </p>
      {(state === 'running' || state === 'pending') && <Progress job={full.summary} />}
      {state === 'done' ? <Believed full={full} /> : ended && <Why full={full} />}
    </Card>
  )
}

function Believed({ full }: { full: Full }) {
  const { checks, gates } = full.result
  const unknown = checks.filter((one) => one.passed === null)
  const good = checks.filter((one) => one.passed === true)
  return (
    <>
      <Headline full={full} />
      <Checks signed={failedChecks(full)} />
      {gates.length > 0 && (
        <>
          <h3>Objectives</h3>
          <Checks signed={gates.map((check) => ({ check, sign: gateSign(check) }))} />
        </>
      )}
      {good.length + unknown.length > 0 && (
        <details>
          <summary>
            {good.length} checks passed{unknown.length > 0 ? `, ${unknown.length} unknown` : ''}
          </summary>
          <Checks signed={[...unknown, ...good].map((check) => ({ check, sign: checkSign(check) }))} />
        </details>
      )}
    </>
  )
}

// A device has a dozen of them; the first say what most people want to know.
const SHOWN_AT_ONCE = 6

function Headline({ full }: { full: Full }) {
  const { campaign, id } = full.summary
  const found = useQuery(headlineQuery(campaign, id, versionOf(full)))
  const metrics = Object.entries(found.data?.metrics ?? {})
  const rest = metrics.length - SHOWN_AT_ONCE
  if (found.error) return <Failure error={found.error} again={() => void found.refetch()} />
  return (
    <>
      <Metrics metrics={metrics.slice(0, SHOWN_AT_ONCE)} />
      {rest > 0 && (
        <details>
          <summary>{rest} more that answer its question</summary>
          <Metrics metrics={metrics.slice(SHOWN_AT_ONCE)} />
        </details>
      )}
    </>
  )
}

function Metrics({ metrics }: { metrics: [string, Api<'MetricView'>][] }) {
  if (metrics.length === 0) return null
  return (
    <dl className="headline">
      {metrics.map(([name, one]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <Measured value={one.median} unit={one.unit} interval={one.interval} better={one.better} runs={one.runs} />
          </dd>
          <dd className="quiet number">
            {one.runs} {one.runs === 1 ? 'run' : 'runs'}, {one.samples.toLocaleString('en-US')} samples
          </dd>
        </div>
      ))}
    </dl>
  )
}

function Checks({ signed }: { signed: ReturnType<typeof failedChecks> }) {
  if (signed.length === 0) return null
  return (
    <ul className="checks">
      {signed.map(({ check, sign: { tone, glyph, word } }) => (
        <li key={check.name}>
          <Mark tone={tone} glyph={glyph} word={word} square={word === 'cannot tell'} />
          <span>
            <strong>{check.name}</strong>: {check.detail}
          </span>
        </li>
      ))}
    </ul>
  )
}

function Why({ full }: { full: Full }) {
  const error = failureOf(full)
  return (
    <div className="why">
      <p>
        <strong>{error ? error.message : full.summary.reason || 'No reason was recorded.'}</strong>
      </p>
      {error && <p className="quiet">{[`error ${error.code}`, evidenceOf(error)].filter(Boolean).join(', ')}</p>}
      {error?.try_ && <p>Try: {error.try_}</p>}
      <Checks signed={failedChecks(full)} />
      {error && error.log_tail.length > 0 && (
        <>
          <h3>The last lines of its log</h3>
          <pre>{plain(error.log_tail.join('\n'))}</pre>
        </>
      )}
    </div>
  )
}
