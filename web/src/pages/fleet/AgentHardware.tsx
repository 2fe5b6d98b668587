import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Api } from '@/api/client'
import { agentHardwareQuery } from '@/api/queries/fleet'
import { Bars } from '@/pages/fleet/Bars'
import { testOf } from '@/pages/fleet/FleetHardware'
import { type Agent, sentence } from '@/pages/fleet/words'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { Mark, Verdict } from '@/parts/Mark'
import { show } from '@/parts/numbers'
import { Ago } from '@/parts/Time'

type Hardware = Api<'AgentHardware'>
type Check = Api<'Check'>
type Bench = Api<'DeviceBench'>

/** Whether the machine is fit to measure, how much its numbers scatter, and what its hardware can do. */
export function AgentHardware({ agent }: { agent: Agent }) {
  const query = useQuery(agentHardwareQuery(agent.id))
  return (
    <Asked query={query} what="what its results say about the machine">
      {(found) => (
        <>
          <div className="cards fleet-cards">
            <Fitness found={found} />
            <Noise found={found} />
          </div>
          <Tests found={found} />
        </>
      )}
    </Asked>
  )
}

function Missing({ found, what }: { found: Hardware; what: string }) {
  const why = found.absent?.[what]
  return <p className="quiet">Not known{why ? `: ${why}` : '.'}</p>
}

function Fitness({ found: hardware }: { found: Hardware }) {
  const found = hardware.fitness
  return (
    <Card
      title="Fitness"
      aside={
        found && (
          <span className="quiet">
            at its newest result, <Ago at={found.at} />
          </span>
        )
      }
    >
      {!found && <Missing found={hardware} what="fitness" />}
      {found && (
        <>
          <Checks checks={found.checks} />
          <p className="quiet">
            From{' '}
            <Link to="/jobs/$job" params={{ job: found.job }}>
              {found.job}
            </Link>
          </p>
        </>
      )}
    </Card>
  )
}

/** What failed or is unknown is open; what passed is folded. */
function Checks({ checks }: { checks: Check[] }) {
  const passed = checks.filter((check) => check.passed === true)
  const others = checks
    .filter((check) => check.passed !== true)
    .toSorted((a, b) => Number(b.passed === false) - Number(a.passed === false))
  const list = (some: Check[]) => (
    <ul className="plain checks">
      {some.map((check) => (
        <li key={check.name}>
          <Checked check={check} />
        </li>
      ))}
    </ul>
  )
  return (
    <>
      {others.length === 0 && (
        <p>
          <Mark tone="good" glyph="✓" word={`all ${passed.length} checks passed`} />
        </p>
      )}
      {list(others)}
      {passed.length > 0 && (
        <details>
          <summary>
            {passed.length} {passed.length === 1 ? 'check' : 'checks'} passed
          </summary>
          {list(passed)}
        </details>
      )}
    </>
  )
}

/** One check: passed, failed or unknown. */
function Checked({ check }: { check: Check }) {
  const mark =
    check.passed === null ? (
      <Mark tone="unknown" glyph="◆" word="cannot tell" square />
    ) : check.passed ? (
      <Mark tone="good" glyph="✓" word="passed" />
    ) : (
      <Mark tone="bad" glyph="✕" word="failed" />
    )
  return (
    <>
      {mark} <strong>{check.name}</strong> <span className="quiet">{check.detail}</span>
    </>
  )
}

function Noise({ found: hardware }: { found: Hardware }) {
  const found = hardware.noise
  return (
    <Card title="Noise" aside={found && <Ago at={found.at} />}>
      {!found && <Missing found={hardware} what="noise" />}
      {found && (
        <>
          <p className="score">
            <strong>{show(found.score, found.score < 10 ? 1 : 0)}</strong> {found.unit}{' '}
            <span className="quiet">lower is quieter</span>
          </p>
          <p>{sentence(found.says)}</p>
          {found.results > 1 && <p className="quiet">From {found.results} results.</p>}
        </>
      )}
    </Card>
  )
}

function Tests({ found }: { found: Hardware }) {
  if (found.bench.length === 0)
    return (
      <Card title="Hardware tests">
        <Missing found={found} what="bench" />
        <p className="quiet">
          A benchmark with <code>target: {'{device: cpu}'}</code> measures bandwidth and FLOPS of the machine.
        </p>
      </Card>
    )
  return (
    <>
      {found.bench.map((bench) => (
        <DeviceCard key={`${bench.job}${bench.device}`} bench={bench} />
      ))}
    </>
  )
}

/** The tests of one device; what has the same unit stands in one chart. */
function DeviceCard({ bench }: { bench: Bench }) {
  const units = [...new Set(bench.items.map((item) => item.unit))]
  return (
    <Card
      title={`Hardware tests: ${bench.device}`}
      aside={
        <span className="quiet">
          <Verdict verdict={bench.verdict} />{' '}
          <Link to="/jobs/$job" params={{ job: bench.job }}>
            {bench.job}
          </Link>
          , <Ago at={bench.at} />
        </span>
      }
    >
      <div className="cards">
        {units.map((unit) => (
          <UnitBars key={unit} bench={bench} unit={unit} />
        ))}
      </div>
    </Card>
  )
}

const TITLES: Record<string, string> = {
  'GB/s': 'Bandwidth',
  TFLOPS: 'Arithmetic by precision',
  TOPS: 'Whole-number arithmetic',
}

function UnitBars({ bench, unit }: { bench: Bench; unit: string }) {
  const items = bench.items.filter((item) => item.unit === unit)
  const bars = items.map((item) => ({ name: testOf(item), value: item.value, interval: item.interval }))
  const title = TITLES[unit] ?? items.map(testOf).join(', ')
  return (
    <section>
      <h3>
        {title} <span className="quiet">({unit})</span>
      </h3>
      <Bars title={`${title} of ${bench.device}`} unit={unit} better={items[0]?.better} bars={bars} />
    </section>
  )
}
