import { Link } from '@tanstack/react-router'
import type { Api } from '@/api/client'
import { Card } from '@/parts/Card'
import { Mark, type Tone } from '@/parts/Mark'

const ROWS: [keyof Api<'FleetHealth'>, string, Tone, string][] = [
  ['healthy', 'respond and can measure', 'good', '●'],
  ['busy', 'measure a job now', 'going', '▶'],
  ['draining', 'finish their jobs and get no new ones', 'unknown', '↓'],
  ['silent', 'sent no heartbeat lately', 'bad', '✕'],
]

/** How the agents are. */
export function FleetCard({ fleet }: { fleet: Api<'FleetHealth'> }) {
  return (
    <Card title="Fleet health" aside={<Link to="/fleet">All agents</Link>}>
      {fleet.agents === 0 ? (
        <p className="quiet">
          No agent is enrolled: <code>assay agent start --server …</code> on a machine makes it one.
        </p>
      ) : (
        <>
          <p>
            {fleet.agents} {fleet.agents === 1 ? 'agent is' : 'agents are'} enrolled.
          </p>
          <table className="table">
            <tbody>
              {ROWS.map(([key, says, tone, glyph]) => (
                <tr key={key}>
                  <th scope="row">
                    <Mark tone={fleet[key] > 0 ? tone : 'unknown'} glyph={glyph} word={key} />
                  </th>
                  <td className="right number">{fleet[key]}</td>
                  <td className="quiet">{says}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
    </Card>
  )
}
