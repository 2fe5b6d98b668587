import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useCallback } from 'react'
import { frontierQuery } from '@/api/queries/compare'
import type { Choices } from '@/app/choices'
import { Chart } from '@/charts/Chart'
import type { Colours } from '@/charts/colours'
import { FrontTable } from '@/pages/compare/FrontTable'
import { frontOf, metricName, optionOf, type Per } from '@/pages/compare/front'
import type { Frontier, Side } from '@/pages/compare/records'
import { Asked } from '@/parts/Asked'
import { Empty } from '@/parts/Empty'
import { Field } from '@/parts/Field'

// What one usually asks first, in this order, of what the sides have.
const USUAL_X = ['ttft_ms', 'latency_ms', 'e2e_ms', 'duration_s']
const USUAL_Y = ['output_tokens_per_s', 'throughput_per_s', 'goodput_per_s', 'recall']

const PER = { '': 'as measured', watt: 'per watt', dollar: 'per dollar' } as const

const perOf = (text: string) => (text === 'watt' || text === 'dollar' ? text : undefined)

export function usual(metrics: string[], wishes: string[], but = ''): string {
  return wishes.find((one) => metrics.includes(one) && one !== but) ?? metrics.find((one) => one !== but) ?? ''
}

/** Two metrics against each other: which results are not worse than another on both. */
export function TradeOff({ sides, metrics, choices }: { sides: Side[]; metrics: string[]; choices: Choices }) {
  const x = choices.text('x', usual(metrics, USUAL_X))
  const y = choices.text('y', usual(metrics, USUAL_Y, x))
  const per = perOf(choices.text('per'))
  const query = useQuery(
    frontierQuery({ sides: sides.map((side) => side.key), x, y, per, benchmark: choices.text('benchmark') }),
  )
  if (metrics.length < 2) return <Empty title="A trade-off needs two metrics, and these sides have fewer in common." />
  return (
    <>
      <div className="filters">
        <Choice label="X axis" value={x} from={metrics} onChoose={(next) => choices.choose({ x: next })} />
        <Choice label="Y axis" value={y} from={metrics} onChoose={(next) => choices.choose({ y: next })} />
        <Field label="Y axis shows">
          {(id) => (
            <select id={id} value={per ?? ''} onChange={(event) => choices.choose({ per: event.target.value })}>
              {Object.entries(PER).map(([key, name]) => (
                <option key={key} value={key}>
                  {name}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Scale">
          {(id) => (
            <select
              id={id}
              value={choices.text('scale')}
              onChange={(event) => choices.choose({ scale: event.target.value })}
            >
              <option value="">automatic</option>
              <option value="linear">linear</option>
              <option value="log">logarithmic</option>
            </select>
          )}
        </Field>
      </div>
      <Asked query={query} what="the trade-off">
        {(found) => <Front found={found} sides={sides} scale={choices.text('scale')} per={per} />}
      </Asked>
    </>
  )
}

function Choice({
  label,
  value,
  from,
  onChoose,
}: {
  label: string
  value: string
  from: string[]
  onChoose: (value: string) => void
}) {
  return (
    <Field label={label}>
      {(id) => (
        <select id={id} value={value} onChange={(event) => onChoose(event.target.value)}>
          {!from.includes(value) && <option>{value}</option>}
          {from.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      )}
    </Field>
  )
}

function Front({ found, sides, scale, per }: { found: Frontier; sides: Side[]; scale: string; per: Per | undefined }) {
  const navigate = useNavigate()
  const option = useCallback(
    (colours: Colours) => optionOf(found, sides, colours, scale, per),
    [found, sides, scale, per],
  )
  const onPick = useCallback(
    ({ data }: { data: unknown }) => {
      if (typeof data === 'object' && data !== null && 'job' in data && typeof data.job === 'string')
        void navigate({ to: '/jobs/$job', params: { job: data.job } })
    },
    [navigate],
  )
  const front = frontOf(found)
  const says = `${found.points.length} results, ${front.length} on the front, ${front.filter((one) => one.surely).length} of them proven`
  const title = `${metricName(found.y, per)} against ${found.x.metric}`
  return (
    <>
      {found.points.length === 0 ? (
        <Empty title="No result has both numbers." />
      ) : (
        <div className="card">
          <Chart
            title={title}
            says={says}
            option={option}
            rows={rowsOf(found)}
            points={found.points.length}
            height={420}
            onPick={onPick}
          />
          <p className="quiet legend">
            Filled: on the front, no other result is better on both. Dashed edge: on the front by its median, but its
            intervals cannot tell. Hollow: another result is better on both. Whiskers are intervals; invisible ones are
            smaller than the mark.
          </p>
          <FrontTable found={found} sides={sides} per={per} />
        </div>
      )}
      <Absent absent={found.absent ?? {}} />
    </>
  )
}

function Absent({ absent }: { absent: Record<string, string> }) {
  const reasons = Object.entries(absent)
  if (reasons.length === 0) return null
  return (
    <details className="absent">
      <summary>
        {reasons.length} {reasons.length === 1 ? 'result is' : 'results are'} not drawn
      </summary>
      <ul>
        {reasons.map(([job, why]) => (
          <li key={job}>
            <Link to="/jobs/$job" params={{ job }}>
              {job}
            </Link>
            : {why}
          </li>
        ))}
      </ul>
    </details>
  )
}

function rowsOf(found: Frontier) {
  return {
    columns: [
      'job',
      'side',
      'machine',
      found.x.metric,
      'x_low',
      'x_high',
      found.y.metric,
      'y_low',
      'y_high',
      'verdict',
      'on_front',
      'surely',
    ],
    rows: found.points.map((point) => [
      point.job,
      point.side,
      point.machine,
      point.x,
      point.x_interval?.low ?? null,
      point.x_interval?.high ?? null,
      point.y,
      point.y_interval?.low ?? null,
      point.y_interval?.high ?? null,
      point.verdict ?? '',
      String(point.on_front),
      String(point.surely),
    ]),
  }
}
