import { Link } from '@tanstack/react-router'
import { AlertActions } from '@/pages/alerts/AlertActions'
import { Card } from '@/parts/Card'
import { Failure } from '@/parts/Failure'
import { Loading } from '@/parts/Loading'
import { State } from '@/parts/Mark'
import { Ago } from '@/parts/Time'
import type { Alert } from '@/watching/types'

interface SeriesAlertsProps {
  query: { isPending: boolean; error: unknown; refetch: () => unknown }
  alerts: readonly Alert[]
}

/** Alerts about a series, with their actions. */
export function SeriesAlerts({ query, alerts }: SeriesAlertsProps) {
  return (
    <Card
      title="Alerts"
      aside={
        <Link to="/alerts" search={{ tab: 'rules' }}>
          rules
        </Link>
      }
    >
      {query.isPending && <Loading what="alerts" />}
      {query.error !== null && <Failure error={query.error} again={() => void query.refetch()} />}
      {!query.isPending && query.error === null && alerts.length === 0 && (
        <p className="quiet">No alert is about this series. Rules say which changes become one.</p>
      )}
      {alerts.map((one) => (
        <div key={one.id} className="series-alert">
          <State state={one.state} />
          <Link to="/alerts/$alert" params={{ alert: one.id }}>
            {one.title}
          </Link>
          <span className="quiet">
            opened <Ago at={one.opened_at} />
          </span>
          <AlertActions alert={one} />
        </div>
      ))}
    </Card>
  )
}
