import { useQuery } from '@tanstack/react-query'
import { sessionQuery } from '@/api/queries/session'
import { address } from '@/app/base'
import { useLiveness } from '@/app/live'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'

const LIVENESS = {
  connecting: 'connecting',
  live: 'the server pushes changes immediately',
  polling: 'asked every few seconds: the live connection does not get through',
} as const

/** What runs here, who one is, and where the rest is written. */
export function About() {
  const query = useQuery(sessionQuery())
  const liveness = useLiveness()
  return (
    <Card title="About">
      <p>assay measures machine-learning systems and says how far its numbers can be believed.</p>
      <Asked query={query} what="the session">
        {(session) => (
          <dl className="facts">
            <dt>Version</dt>
            <dd>{session.version}</dd>
            <dt>You are</dt>
            <dd>
              {session.name}, with the role {session.role}
            </dd>
            <dt>Access</dt>
            <dd>{session.open ? 'open to everybody on this machine' : 'by token'}</dd>
            <dt>Updates</dt>
            <dd>{LIVENESS[liveness]}</dd>
            <dt>API</dt>
            <dd>
              <a href={address('/api/v1/docs')}>documentation of the HTTP API</a>
            </dd>
          </dl>
        )}
      </Asked>
    </Card>
  )
}
