import { Link } from '@tanstack/react-router'
import type { Api } from '@/api/client'
import { Card } from '@/parts/Card'
import { State } from '@/parts/Mark'
import { Ago } from '@/parts/Time'

/** Open alerts that have not been handled. */
export function AlertsCard({ alerts, open }: { alerts: Api<'AlertHeadline'>[]; open: number }) {
  return (
    <Card
      title="Alerts"
      aside={<Link to="/alerts">{open > 0 ? `All ${open.toLocaleString('en-US')} open alerts` : 'All alerts'}</Link>}
    >
      {alerts.length === 0 && <p className="quiet">No alert is open.</p>}
      <ul className="news">
        {alerts.map((one) => (
          <li key={one.id}>
            <div className="news-line">
              <Link to="/alerts/$alert" params={{ alert: one.id }}>
                {one.title}
              </Link>{' '}
              <span className="quiet small-print">
                <Ago at={one.opened_at} />
              </span>
            </div>
            <div className="small-print two-lines">
              <State state={one.state} />{' '}
              <span className="quiet">
                {one.severity}
                {one.says ? `: ${one.says}` : ''}
              </span>
            </div>
          </li>
        ))}
      </ul>
    </Card>
  )
}
