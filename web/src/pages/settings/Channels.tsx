import { useQuery } from '@tanstack/react-query'
import type { ColumnDef } from '@tanstack/react-table'
import { useMemo } from 'react'
import type { Api } from '@/api/client'
import { channelsQuery } from '@/api/queries/settings'
import { useRights } from '@/app/rights'
import { useTestChannel } from '@/pages/settings/acting'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { Empty } from '@/parts/Empty'
import { Mark } from '@/parts/Mark'
import { Table } from '@/parts/Table'
import { Ago } from '@/parts/Time'

type Channel = Api<'Channel'>

/** The ways by which the server tells people, and whether they work. */
export function Channels() {
  const query = useQuery(channelsQuery())
  return (
    <Card title="Notifiers">
      <p className="quiet">
        Where alerts are sent. Channels are written in the file that <code>assay serve --channels</code> names; their
        secrets stay there.
      </p>
      <Asked query={query} what="channels">
        {(page) =>
          page.items.length === 0 ? (
            <Empty title="This server has no channels yet.">
              <p>
                Write a channel into a file and start <code>assay serve --channels FILE</code>: see “Notify a channel”
                in the docs. Alerts are on the page Alerts anyway.
              </p>
            </Empty>
          ) : (
            <ChannelTable channels={page.items} />
          )
        }
      </Asked>
    </Card>
  )
}

function ChannelTable({ channels }: { channels: Channel[] }) {
  const { admin } = useRights()
  const columns = useMemo(() => (admin ? [...COLUMNS, TEST] : COLUMNS), [admin])
  return <Table label="All notifiers" rows={channels} columns={columns} keyOf={(channel) => channel.name} />
}

const STATES: Record<Channel['state'], React.ReactNode> = {
  ok: <Mark tone="good" glyph="✓" word="works" />,
  failing: <Mark tone="bad" glyph="✕" word="fails" />,
  unused: <Mark tone="unknown" glyph="–" word="not used yet" />,
}

const COLUMNS: ColumnDef<Channel, unknown>[] = [
  { id: 'name', header: 'Channel', accessorFn: (channel) => channel.name },
  { id: 'kind', header: 'Kind', accessorFn: (channel) => channel.kind },
  { id: 'to', header: 'Sends to', accessorFn: (channel) => channel.to },
  {
    id: 'state',
    header: 'State',
    accessorFn: (channel) => channel.state,
    cell: ({ row: { original: channel } }) => (
      <>
        {STATES[channel.state]}
        {channel.failing && <div className="quiet">{channel.failing}</div>}
      </>
    ),
  },
  { id: 'waiting', header: 'Waiting', accessorFn: (channel) => channel.waiting, meta: { right: true } },
  {
    id: 'sent',
    header: 'Last sent',
    accessorFn: (channel) => channel.last_sent ?? 0,
    cell: ({ row: { original: channel } }) =>
      channel.last_sent ? <Ago at={channel.last_sent} /> : <span className="quiet">never</span>,
  },
]

const TEST: ColumnDef<Channel, unknown> = {
  id: 'test',
  header: 'Test',
  enableSorting: false,
  cell: ({ row }) => <Test channel={row.original} />,
}

/** Send a test message, and say what the other end answered. */
function Test({ channel }: { channel: Channel }) {
  const test = useTestChannel()
  return (
    <>
      <button type="button" className="button" disabled={test.isPending} onClick={() => test.mutate(channel.name)}>
        {test.isPending ? 'Sending…' : 'Send a test'}
        <span className="unseen"> to {channel.name}</span>
      </button>
      <span role="status">
        {test.data && (
          <div>
            <Mark
              tone={test.data.sent ? 'good' : 'bad'}
              glyph={test.data.sent ? '✓' : '✕'}
              word={test.data.sent ? 'sent' : 'not sent'}
            />{' '}
            <span className="quiet">{test.data.says}</span>
          </div>
        )}
      </span>
    </>
  )
}
