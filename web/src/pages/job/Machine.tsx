import { useChoices } from '@/app/choices'
import { at, type Fact, factText, flat } from '@/pages/job/facts'
import { Energy, Watched } from '@/pages/job/Seen'
import type { Full } from '@/pages/job/words'
import { Card } from '@/parts/Card'
import { Empty } from '@/parts/Empty'
import { FindText } from '@/parts/Filters'
import { fetched } from '@/parts/fetched'
import { Table } from '@/parts/Table'

const [Yaml] = fetched(() => import('@/pages/job/Yaml'), 'the definition')

/** The machine of a job: what was seen of it meanwhile, or what it is and how it was set up. */
export function Machine({ full, part }: { full: Full; part: 'seen' | 'environment' }) {
  if (part === 'seen')
    return (
      <>
        <Energy runs={full.result.runs} />
        <Watched runs={full.result.runs} />
      </>
    )
  const definition = Object.keys(full.result.definition).length > 0 ? full.result.definition : full.document.definition
  return (
    <>
      <Proof full={full} />
      <Environment facts={flat(full.result.environment)} />
      <Card title="Definition">
        <p className="quiet">
          What this job measures: the benchmark file at one point of its matrix. What was left at its default is not
          written.
        </p>
        <Yaml value={definition} />
      </Card>
    </>
  )
}

const MACHINE: [string, string][] = [
  ['name', 'machine'],
  ['cpu', 'processor'],
  ['soc', 'system on a chip'],
  ['cores', 'cores'],
  ['memory_bytes', 'memory'],
  ['gpu', 'graphics'],
  ['os', 'system'],
  ['os_version', 'version of the system'],
  ['kernel', 'kernel'],
]

/** What the job ran on, as the runtime itself reported after the run. */
function Proof({ full }: { full: Full }) {
  const machine = at(full.result.environment, 'machine')
  const known = MACHINE.flatMap(([key, word]) => {
    const value = at(machine, key)
    const isTold = key === 'soc' && value === at(machine, 'cpu')
    return value === undefined || value === null || value === '' || isTold
      ? []
      : [[word, factText(key, value)] as const]
  })
  const proofs = full.result.runs.flatMap((run) => (run.device ? [run.device] : []))
  const used = [...new Map(proofs.map((one) => [`${one.requested} ${one.used} ${one.evidence}`, one])).values()]
  if (known.length === 0 && used.length === 0) return null
  return (
    <Card title="Machine and device">
      <dl className="facts">
        {known.map(([word, value]) => (
          <Row key={word} word={word} value={value} />
        ))}
        {used.map((one) => (
          <Row
            key={`${one.used}${one.evidence}`}
            word="device"
            value={`asked for ${one.requested}, used ${one.used} (${one.evidence})`}
          />
        ))}
      </dl>
    </Card>
  )
}

function Row({ word, value }: { word: string; value: string }) {
  return (
    <>
      <dt>{word}</dt>
      <dd>{value}</dd>
    </>
  )
}

const COLUMNS = [
  {
    id: 'path',
    header: 'fact',
    accessorFn: (one: Fact) => one.path,
    cell: ({ row }: { row: { original: Fact } }) => <code>{row.original.path}</code>,
  },
  { id: 'value', header: 'value', accessorFn: (one: Fact) => one.value },
]

function Environment({ facts }: { facts: Fact[] }) {
  const { text, choose } = useChoices()
  const find = text('find')
  const wanted = find.toLowerCase()
  const shown = facts.filter((one) => `${one.path} ${one.value}`.toLowerCase().includes(wanted))
  return (
    <Card
      title="Environment"
      aside={
        <span className="quiet">
          {shown.length} of {facts.length} facts
        </span>
      }
    >
      <p className="quiet">
        Everything that was recorded about the machine and its software, before and after the job.
      </p>
      {facts.length === 0 ? (
        <Empty title="Nothing was recorded." />
      ) : (
        <>
          <FindText label="Find a fact" value={find} onText={(next) => choose({ find: next }, true)} />
          <Table label="Facts" rows={shown} columns={COLUMNS} keyOf={(one) => one.path} />
        </>
      )}
    </Card>
  )
}
