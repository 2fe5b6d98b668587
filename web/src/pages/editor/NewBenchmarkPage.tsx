import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { fileStoredQuery } from '@/api/queries/benchmarks'
import { useChoices } from '@/app/choices'
import { Asked } from '@/parts/Asked'
import { Page } from '@/parts/Page'
import { CASES, type CaseKey } from './cases'
import { writtenOf } from './document'
import { Workbench } from './Workbench'

const LEAD =
  'A benchmark is one file: what is measured, with what, how often. Fill in the form or write the file; what would happen is shown below, and nothing runs before you say so.'

/** Write a benchmark: `case` begins with one of the common cases, `from` with a stored one. */
export default function NewBenchmarkPage() {
  const { text } = useChoices()
  const from = text('from')
  const version = Number(text('version')) || 0
  if (from) return <Stored name={from} version={version || undefined} />
  const shown = CASES.find((one) => one.key === text('case')) ?? CASES[0]
  if (shown === undefined) return null
  return (
    <Workbench
      key={shown.key}
      title="New benchmark"
      crumbs={<Crumbs />}
      lead={LEAD}
      draft={`case:${shown.key}`}
      start={shown.starter}
      chooser={<Chooser shown={shown.key} />}
    />
  )
}

function Stored({ name, version }: { name: string; version: number | undefined }) {
  const stored = useQuery(fileStoredQuery(name, version))
  if (stored.data === undefined)
    return (
      <Page title={name} crumbs={<Crumbs />}>
        <Asked query={stored} what="the benchmark">
          {() => null}
        </Asked>
      </Page>
    )
  const { document, files, version: number } = stored.data
  return (
    <Workbench
      key={`${name} ${number}`}
      title={name}
      crumbs={<Crumbs />}
      draft={`stored:${name}:${number}`}
      start={writtenOf(document)}
      files={files}
      stored={{ name, version: number }}
      lead={`Version ${number} as the server keeps it (comments are not kept). Saving makes the next version.`}
    />
  )
}

function Crumbs() {
  return <Link to="/benchmarks">Benchmarks</Link>
}

/** What the benchmark is about. Each choice has a draft of its own. */
function Chooser({ shown }: { shown: CaseKey }) {
  const { choose } = useChoices()
  return (
    <fieldset className="cases">
      <legend>What do you want to measure?</legend>
      {CASES.map((one) => (
        <label key={one.key} className="case">
          <input
            type="radio"
            name="case"
            value={one.key}
            checked={one.key === shown}
            onChange={() => choose({ case: one.key })}
          />
          <span>
            <strong>{one.name}</strong>
            <span className="quiet">{one.says}</span>
          </span>
        </label>
      ))}
    </fieldset>
  )
}
