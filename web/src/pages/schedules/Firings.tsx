import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { createColumnHelper } from '@tanstack/react-table'
import { useMemo } from 'react'
import type { Api } from '@/api/client'
import { firingsQuery } from '@/api/queries/schedules'
import { usePollMs } from '@/app/live'
import { localWords } from '@/pages/schedules/times'
import { AskedPages, atEnd } from '@/parts/AskedPages'
import { Empty } from '@/parts/Empty'
import { State } from '@/parts/Mark'
import { Table } from '@/parts/Table'
import { duration } from '@/parts/Time'

type Firing = Api<'FiringView'>
const column = createColumnHelper<Firing>()

const columns = [
  column.accessor('due', {
    header: 'Due',
    cell: (one) => <span className="nowrap">{localWords(one.row.original.local)}</span>,
  }),
  column.accessor('outcome', { header: 'Outcome', cell: (one) => <State state={one.getValue()} /> }),
  column.accessor((one) => (one.fired_at === null ? null : Math.max(0, one.fired_at - one.due)), {
    id: 'later',
    header: 'Started',
    cell: (one) => <Later seconds={one.getValue()} />,
  }),
  column.accessor('campaign', { header: 'Campaign', cell: (one) => <Campaign firing={one.row.original} /> }),
  column.accessor('reason', { header: 'Why', cell: (one) => one.getValue() || <span className="quiet">–</span> }),
]

function Later({ seconds }: { seconds: number | null }) {
  if (seconds === null) return <span className="quiet">–</span>
  return <span className="number">{seconds < 1 ? 'on time' : `${duration(seconds)} later`}</span>
}

function Campaign({ firing }: { firing: Firing }) {
  if (!firing.campaign) return <span className="quiet">none</span>
  if (firing.campaign_state === null) return <span className="quiet">{firing.campaign}, removed since</span>
  return (
    <>
      <Link to="/campaigns/$campaign" params={{ campaign: firing.campaign }} className="mono">
        {firing.campaign}
      </Link>{' '}
      <State state={firing.campaign_state} />
    </>
  )
}

/** The outcome of each due time, newest first. */
export function Firings({ schedule }: { schedule: string }) {
  const query = useInfiniteQuery({ ...firingsQuery(schedule), refetchInterval: usePollMs() })
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data])
  return (
    <AskedPages query={query} what="its times">
      {rows.length === 0 ? (
        <Empty title="It has not been due yet." />
      ) : (
        <Table
          label="Due times and their outcome"
          rows={rows}
          columns={columns}
          keyOf={(one) => String(one.id)}
          onEnd={atEnd(query)}
        />
      )}
    </AskedPages>
  )
}
