import type { ColumnDef } from '@tanstack/react-table'
import type { Api } from '@/api/client'
import { Card } from '@/parts/Card'
import { Empty } from '@/parts/Empty'
import { Failure } from '@/parts/Failure'
import { Loading } from '@/parts/Loading'
import { Mark } from '@/parts/Mark'
import { Table } from '@/parts/Table'
import type { Reading } from './reading'

type Preview = Api<'BenchmarkPreview'>
type Group = Api<'PlacementGroup'>

const COLUMNS: ColumnDef<Api<'JobPreview'>>[] = [
  { accessorKey: 'index', header: '#', meta: { right: true } },
  { accessorKey: 'label', header: 'Job' },
  { accessorKey: 'needs', header: 'Needs' },
  { accessorKey: 'runs', header: 'Runs', meta: { right: true } },
]

/** What would happen: the jobs, what they need, which agents can take them, and what the others lack. */
export function PlanCard({ reading }: { reading: Reading }) {
  return <Card title="What would happen">{content(reading)}</Card>
}

function content({ preview, problems, failure, isWaiting }: Reading) {
  if (failure) return <Failure error={failure} />
  if (preview) return <Plan preview={preview} />
  if (problems.length === 0 && isWaiting) return <Loading what="the plan" />
  return (
    <Empty title="Nothing can be planned yet">
      <p>Fix the problems in the file first: they are listed below it.</p>
    </Empty>
  )
}

function Plan({ preview }: { preview: Preview }) {
  const runs = preview.job_list.reduce((sum, job) => sum + job.runs, 0)
  const all = preview.job_list.length === preview.jobs
  return (
    <>
      <p>
        <strong>
          {preview.jobs} {preview.jobs === 1 ? 'job' : 'jobs'}
        </strong>
        {all && `, ${runs} ${runs === 1 ? 'run' : 'runs'} in all`}.{' '}
        {preview.placement.placeable ? (
          <Mark tone="good" glyph="✓" word="can run" />
        ) : (
          <Mark tone="warn" glyph="!" word="would wait" />
        )}{' '}
        {sentence(preview.placement.says)}.
      </p>
      {!preview.placement.placeable && (
        <p className="quiet">You can run it anyway: its jobs wait for an agent that can take them.</p>
      )}
      {preview.files_missing.length > 0 && (
        <p>
          <Mark tone="bad" glyph="✕" word={`${preview.files_missing.length} files are not on the server yet`} />
        </p>
      )}
      <ul className="groups">
        {preview.placement.groups.map((group) => (
          <li key={group.key}>
            <GroupView group={group} />
          </li>
        ))}
      </ul>
      <h3>Jobs</h3>
      <Table label="Jobs that would run" rows={preview.job_list} columns={COLUMNS} keyOf={(job) => String(job.index)} />
      {!all && (
        <p className="quiet">
          The first {preview.job_list.length} of {preview.jobs} are shown.
        </p>
      )}
    </>
  )
}

function GroupView({ group }: { group: Group }) {
  const reasons = byReason(group.missing)
  return (
    <>
      <p>
        <strong>
          {group.jobs} {group.jobs === 1 ? 'job needs' : 'jobs need'}
        </strong>{' '}
        {group.needs}
        {group.machines > 1 && `, on ${group.machines} machines at the same time`}.{' '}
        {group.agents.length > 0 ? <>Can be taken by: {group.agents.join(', ')}.</> : 'No agent can take it now.'}
      </p>
      {reasons.length > 0 && (
        <details open={group.agents.length < group.machines}>
          <summary>{group.agents.length > 0 ? 'Why the others cannot' : 'What the agents lack'}</summary>
          <ul>
            {reasons.map(([reason, agents]) => (
              <li key={reason}>
                {sentence(reason)}: <span className="quiet">{agents.join(', ')}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  )
}

/** What agents lack, each reason with all agents that it holds for: a fleet lacks few different things. */
export function byReason(missing: Group['missing']): [string, string[]][] {
  const found = new Map<string, string[]>()
  for (const [agent, lacks] of Object.entries(missing)) {
    // An agent's own name in a reason would make a reason of each.
    const reason = lacks.map((one) => one.replaceAll(agent, 'it')).join('; ')
    found.set(reason, [...(found.get(reason) ?? []), agent])
  }
  return [...found]
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
