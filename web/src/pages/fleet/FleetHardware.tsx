import { useQueries } from '@tanstack/react-query'
import type { Api } from '@/api/client'
import { agentHardwareQuery } from '@/api/queries/fleet'
import type { Choices } from '@/app/choices'
import { Bars } from '@/pages/fleet/Bars'
import type { Agent } from '@/pages/fleet/words'
import { Empty } from '@/parts/Empty'
import { Field } from '@/parts/Field'
import { Loading } from '@/parts/Loading'

// Each machine is a question of its own: more than these are narrowed down by the filters.
const MOST = 24

type Figure = Api<'DeviceFigure'>
interface Known {
  agent: string
  device: string
  figure: Figure
}

/** What a test is called; many bear their precision in the name already. */
export const testOf = (figure: Figure) =>
  figure.precision && !figure.test.includes(figure.precision) ? `${figure.test} ${figure.precision}` : figure.test

/** One hardware test across the machines: who has how much bandwidth, how many FLOPS. */
export function FleetHardware({ agents, choices }: { agents: Agent[]; choices: Choices }) {
  const shown = agents.slice(0, MOST)
  const answers = useQueries({ queries: shown.map((agent) => agentHardwareQuery(agent.id)) })
  if (answers.some((one) => one.isPending)) return <Loading what="hardware tests" />
  const known: Known[] = answers.flatMap((answer, at) =>
    (answer.data?.bench ?? []).flatMap((bench) =>
      bench.items.map((figure) => ({ agent: shown[at]?.name ?? '', device: bench.device, figure })),
    ),
  )
  const tests = [...new Set(known.map((one) => testOf(one.figure)))].sort()
  const test = choices.text('test', tests[0])
  if (tests.length === 0)
    return (
      <Empty title="None of these machines has a hardware test yet.">
        <p>
          Run a benchmark with <code>target: {'{device: cpu}'}</code> on them: see “Measure the hardware” in the docs.
        </p>
      </Empty>
    )
  return (
    <>
      <div className="filters">
        <Field label="Test">
          {(id) => (
            <select id={id} value={test} onChange={(event) => choices.choose({ test: event.target.value })}>
              {tests.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          )}
        </Field>
      </div>
      {agents.length > MOST && (
        <p className="quiet">
          The first {MOST} of {agents.length} agents are shown: narrow them down with the filters.
        </p>
      )}
      <TestBars test={test} known={known.filter((one) => testOf(one.figure) === test)} />
    </>
  )
}

function TestBars({ test, known }: { test: string; known: Known[] }) {
  const first = known[0]?.figure
  if (!first) return <Empty title={`None of these machines has measured ${test}.`} />
  const bars = known.map(({ agent, device, figure }) => ({
    name: device === 'cpu' ? agent : `${agent}, ${device}`,
    value: figure.value,
    interval: figure.interval,
  }))
  return (
    <div className="card">
      <Bars title={test} unit={first.unit} better={first.better} bars={bars.toSorted((a, b) => b.value - a.value)} />
    </div>
  )
}
