import { Link } from '@tanstack/react-router'
import { createColumnHelper } from '@tanstack/react-table'
import { Severity } from '@/pages/alerts/Severity'
import { Mark, type Tone } from '@/parts/Mark'
import { Table } from '@/parts/Table'
import { Ago } from '@/parts/Time'
import type { Alert } from '@/watching/types'

type Member = Alert['members'][number]
const column = createColumnHelper<Member>()
const STATES: Record<string, [Tone, string]> = {
  standing: ['bad', '!'],
  recovered: ['good', '✓'],
  expected: ['unknown', '='],
  closed: ['unknown', '–'],
}

const severity = column.accessor('severity', {
  header: 'Severity',
  cell: (one) => <Severity severity={one.getValue()} />,
})
const columns = [
  column.accessor('state', { header: 'State', cell: (one) => <MemberState state={one.getValue()} /> }),
  column.accessor('says', { header: 'What' }),
  column.accessor((one) => one.since ?? one.at, {
    id: 'since',
    header: 'Since',
    cell: (one) => <Ago at={one.getValue()} />,
  }),
  column.display({ id: 'links', header: 'Look at', cell: (one) => <Links member={one.row.original} /> }),
]

function MemberState({ state }: { state: string }) {
  const [tone, glyph] = STATES[state] ?? (['unknown', '·'] as const)
  return <Mark tone={tone} glyph={glyph} word={state} />
}

function Links({ member }: { member: Member }) {
  return (
    <span className="links">
      {member.series && member.finding && (
        <Link to="/series/$series" params={{ series: member.series }} hash={`finding-${member.finding}`}>
          series
        </Link>
      )}
      {member.job && (
        <Link to="/jobs/$job" params={{ job: member.job }}>
          job
        </Link>
      )}
      {member.campaign && (
        <Link to="/campaigns/$campaign" params={{ campaign: member.campaign }}>
          campaign
        </Link>
      )}
      {member.agent && (
        <Link to="/fleet/$agent" params={{ agent: member.agent }}>
          agent
        </Link>
      )}
    </span>
  )
}

/** Everything that an alert is about, those that still stand first. */
export function Members({ members }: { members: readonly Member[] }) {
  const differ = new Set(members.map((one) => one.severity)).size > 1
  return (
    <Table
      label="What the alert is about"
      rows={[...members]}
      columns={differ ? [severity, ...columns] : columns}
      keyOf={(one) => one.subject}
    />
  )
}
