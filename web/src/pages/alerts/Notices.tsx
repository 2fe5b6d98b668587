import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { createColumnHelper } from '@tanstack/react-table'
import { type Api, client, ok } from '@/api/client'
import { noticesQuery } from '@/api/queries/alerts'
import { useAct, useMayChange } from '@/app/acting'
import { useChoices } from '@/app/choices'
import { usePollMs } from '@/app/live'
import { Asked } from '@/parts/Asked'
import { Empty } from '@/parts/Empty'
import { FilterWord } from '@/parts/Filters'
import { State } from '@/parts/Mark'
import { Table } from '@/parts/Table'
import { Ago } from '@/parts/Time'
import { count } from '@/watching/words'
import '@/watching/watching.css'

type Notice = Api<'NoticeView'>
const column = createColumnHelper<Notice>()
const STATES = ['all', 'waiting', 'sending', 'sent', 'given-up'] as const
const STATE_WORDS = [
  ['all', 'all'],
  ['waiting', 'waiting'],
  ['sending', 'sending'],
  ['sent', 'sent'],
  ['given-up', 'given up'],
] as const

const state = column.accessor('state', { header: 'State', cell: (one) => <State state={one.getValue()} /> })
const channel = column.accessor('channel', {
  header: 'Channel',
  cell: (one) => (one.getValue() === '*' ? <span className="quiet">every channel</span> : one.getValue()),
})
const subject = column.accessor('subject', {
  header: 'Subject',
  cell: (one) => (
    <Link to="/alerts/$alert" params={{ alert: one.row.original.alert }}>
      {one.getValue() || one.row.original.alert}
    </Link>
  ),
})
const when = column.accessor('created_at', { header: 'Written', cell: (one) => <Ago at={one.getValue()} /> })
const became = column.display({
  id: 'became',
  header: 'Outcome',
  cell: (one) => <Became notice={one.row.original} />,
})
const act = column.display({
  id: 'act',
  header: () => <span className="unseen">What to do</span>,
  cell: (one) => <Again notice={one.row.original} />,
})
const OF_ONE = [state, channel, when, became, act]
const OF_ALL = [state, channel, subject, when, became, act]

function Became({ notice }: { notice: Notice }) {
  return (
    <>
      {notice.sent_at !== null && (
        <>
          sent <Ago at={notice.sent_at} />
        </>
      )}
      {notice.next_at !== null && (
        <>
          due <Ago at={notice.next_at} />
        </>
      )}
      {notice.tries > 1 && <span className="quiet"> after {count(notice.tries, 'try').replace('trys', 'tries')}</span>}
      {notice.error && <div className="quiet">{notice.error}</div>}
    </>
  )
}

function Again({ notice }: { notice: Notice }) {
  const may = useMayChange()
  const again = useAct({
    ask: () => ok(client.POST('/api/v1/notices/{notice}/again', { params: { path: { notice: notice.id } } })),
    done: () => `The message to ${notice.channel} is sent again`,
    failed: 'The message is not sent again',
    touches: ['alerts'],
  })
  if (!may || notice.state !== 'given-up') return null
  return (
    <div className="in-row">
      <button type="button" className="button" disabled={again.isPending} onClick={() => again.mutate()}>
        Send again
      </button>
    </div>
  )
}

/** Messages about one alert, or about all: to which channel, whether each was taken, and if not, why. */
export function Notices({ alert }: { alert: string }) {
  const { word, choose } = useChoices()
  const chosen = alert ? 'all' : word('state', STATES)
  const query = useQuery({
    ...noticesQuery({ alert, state: chosen === 'all' ? '' : chosen }),
    refetchInterval: usePollMs(),
  })
  return (
    <>
      {!alert && (
        <search className="filters even">
          <FilterWord
            label="State"
            value={chosen}
            words={STATE_WORDS}
            onChoose={(next) => choose({ state: next === 'all' ? '' : next })}
          />
        </search>
      )}
      <Asked query={query} what="messages">
        {({ items }) =>
          items.length === 0 ? (
            <NoNotices />
          ) : (
            <Table
              label="Messages and their outcome"
              rows={[...items]}
              columns={alert ? OF_ONE : OF_ALL}
              keyOf={(one) => String(one.id)}
            />
          )
        }
      </Asked>
    </>
  )
}

function NoNotices() {
  return (
    <Empty title="No messages yet.">
      The server sends messages to its channels: chat, mail or a web hook.{' '}
      <Link to="/settings" search={{ tab: 'notifiers' }}>
        See the channels
      </Link>
    </Empty>
  )
}
