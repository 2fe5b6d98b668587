import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { alertQuery } from '@/api/queries/alerts'
import { usePollMs } from '@/app/live'
import { AlertActions } from '@/pages/alerts/AlertActions'
import { AlertTrend } from '@/pages/alerts/AlertTrend'
import { History } from '@/pages/alerts/History'
import { kindWords } from '@/pages/alerts/life'
import { Members } from '@/pages/alerts/Members'
import { Notices } from '@/pages/alerts/Notices'
import { Severity } from '@/pages/alerts/Severity'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { State } from '@/parts/Mark'
import { Page } from '@/parts/Page'
import { Ago } from '@/parts/Time'
import type { Alert } from '@/watching/types'
import { valueWords } from '@/watching/words'
import '@/pages/alerts/alerts.css'

/** One alert: what happened, what may explain it, what was done about it and who was notified. */
export default function AlertPage() {
  const { alert = '' } = useParams({ strict: false })
  const query = useQuery({ ...alertQuery(alert), refetchInterval: usePollMs() })
  return (
    <Page
      title={query.data?.title ?? 'Alert'}
      crumbs={<Link to="/alerts">Alerts</Link>}
      actions={query.data && <AlertActions alert={query.data} />}
      lead="What happened, what may explain it, what was done about it, and who was notified."
    >
      <Asked query={query} what="the alert">
        {(found) => <Known alert={found} />}
      </Asked>
    </Page>
  )
}

function Known({ alert }: { alert: Alert }) {
  // What it is about has a table of its own below.
  const listed = new Set(alert.members.map((one) => one.says))
  const sentences = alert.members.length > 1 ? alert.sentences.filter((one) => !listed.has(one)) : alert.sentences
  return (
    <>
      <Card
        title="What happened"
        aside={
          <span className="actions">
            <Severity severity={alert.severity} />
            <State state={alert.state} />
          </span>
        }
      >
        {sentences.map((one) => (
          <p key={one}>{one}</p>
        ))}
        <Facts alert={alert} />
      </Card>
      <AlertTrend alert={alert} />
      {alert.differs.length > 0 && (
        <Card title="What differs">
          <Differs alert={alert} />
        </Card>
      )}
      <Card title="What it is about">
        <Members members={alert.members} />
      </Card>
      <Card title="History">
        <History lines={alert.history} />
      </Card>
      <Card title="Messages">
        <Notices alert={alert.id} />
      </Card>
    </>
  )
}

function Facts({ alert }: { alert: Alert }) {
  const rules = alert.rules.map((one) => one.name).join(', ')
  return (
    <dl className="facts">
      <dt>Kind</dt>
      <dd>{kindWords(alert.kind)}</dd>
      {alert.benchmark && (
        <>
          <dt>Benchmark</dt>
          <dd>
            <Link to="/series" search={{ benchmark: alert.benchmark }}>
              {alert.benchmark}
            </Link>
          </dd>
        </>
      )}
      <dt>Opened</dt>
      <dd>
        <Ago at={alert.opened_at} />, last changed <Ago at={alert.changed_at} />
        {alert.by && ` by ${alert.by}`}
      </dd>
      {typeof alert.snoozed_until === 'number' && alert.state === 'snoozed' && (
        <>
          <dt>Snoozed</dt>
          <dd>
            it is open again <Ago at={alert.snoozed_until} />
          </dd>
        </>
      )}
      {rules && (
        <>
          <dt>By rule</dt>
          <dd>{rules}</dd>
        </>
      )}
    </dl>
  )
}

function Differs({ alert }: { alert: Alert }) {
  return (
    <table className="table">
      <thead>
        <tr>
          <th scope="col">What</th>
          <th scope="col">last good result</th>
          <th scope="col">first bad result</th>
        </tr>
      </thead>
      <tbody>
        {alert.differs.map((one) => (
          <tr key={one.name}>
            <td>{one.name}</td>
            <td className="mono">{valueWords(one.before)}</td>
            <td className="mono">{valueWords(one.after)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
