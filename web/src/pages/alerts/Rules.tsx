import { useQuery } from '@tanstack/react-query'
import { createColumnHelper } from '@tanstack/react-table'
import { useState } from 'react'
import { type Api, client, ok } from '@/api/client'
import { alertRulesQuery } from '@/api/queries/alerts'
import { useAct, useMayChange } from '@/app/acting'
import { usePollMs } from '@/app/live'
import { RuleDialog } from '@/pages/alerts/RuleDialog'
import { formOf, NEW_RULE } from '@/pages/alerts/rule'
import { Severity } from '@/pages/alerts/Severity'
import { Asked } from '@/parts/Asked'
import { Confirm } from '@/parts/Confirm'
import { Empty } from '@/parts/Empty'
import { Table } from '@/parts/Table'
import { Ago } from '@/parts/Time'

type Rule = Api<'RuleView'>
const column = createColumnHelper<Rule>()

const columns = [
  column.accessor('says', {
    header: 'Opens when',
    cell: (one) =>
      one.getValue() ? (
        <strong>{one.getValue()}</strong>
      ) : (
        <span className="quiet">not understood: written by another version</span>
      ),
  }),
  column.accessor('benchmark', {
    header: 'Benchmarks',
    cell: (one) => (one.getValue() === '*' ? 'all' : one.getValue()),
  }),
  column.accessor((one) => String(one.rule.severity ?? 'warning'), {
    id: 'severity',
    header: 'Severity',
    cell: (one) => <Severity severity={one.getValue()} />,
  }),
  column.accessor('origin', {
    header: 'From',
    cell: (one) =>
      one.getValue() === 'file' ? (
        <span className="nowrap">its file</span>
      ) : (
        `here${one.row.original.by ? `, by ${one.row.original.by}` : ''}`
      ),
  }),
  column.accessor('name', { header: 'Name', cell: (one) => <span className="quiet">{one.getValue()}</span> }),
  column.accessor('told_at', {
    header: 'Last notified',
    cell: (one) => (one.getValue() === null ? <span className="quiet">never</span> : <Ago at={one.getValue()} />),
  }),
  column.display({
    id: 'act',
    header: () => <span className="unseen">What to do</span>,
    cell: (one) => <RuleActions rule={one.row.original} />,
  }),
]

function RuleActions({ rule }: { rule: Rule }) {
  const [open, setOpen] = useState(false)
  const may = useMayChange()
  const remove = useAct({
    ask: () => ok(client.DELETE('/api/v1/alert-rules/{name}', { params: { path: { name: rule.name } } })),
    done: () => `The rule ${rule.name} is gone`,
    failed: 'The rule was not removed',
    touches: ['alerts', 'overview'],
  })
  // A rule of a file goes with the file.
  if (!may || rule.origin === 'file') return null
  return (
    <div className="in-row">
      <button type="button" className="button" onClick={() => setOpen(true)}>
        Change
      </button>
      <Confirm
        word="Remove"
        title={`Remove the rule ${rule.name}?`}
        danger
        onConfirm={() => remove.mutate()}
        disabled={remove.isPending}
      >
        <p>It sends no more notifications, and alerts that it alone opened are resolved.</p>
      </Confirm>
      {open && <RuleDialog form={formOf(rule)} isNew={false} onClose={() => setOpen(false)} />}
    </div>
  )
}

/** Every rule: those given here, and those last seen in benchmark files. */
export function Rules() {
  const [open, setOpen] = useState(false)
  const may = useMayChange()
  const query = useQuery({ ...alertRulesQuery(), refetchInterval: usePollMs() })
  return (
    <>
      {may && (
        <p>
          <button type="button" className="button primary" onClick={() => setOpen(true)}>
            Add a rule
          </button>
        </p>
      )}
      <Asked query={query} what="rules">
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No rules yet, so nothing is sent.">
              A rule here applies to every benchmark whose name matches; a benchmark file can have its own under{' '}
              <code>alerts</code>.
            </Empty>
          ) : (
            <Table label="Rules" rows={[...items]} columns={columns} keyOf={(one) => one.id} />
          )
        }
      </Asked>
      {open && <RuleDialog form={NEW_RULE} isNew onClose={() => setOpen(false)} />}
    </>
  )
}
