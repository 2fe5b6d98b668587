import { Link } from '@tanstack/react-router'
import type { Api } from '@/api/client'
import { FAILED } from '@/pages/overview/FailedCard'
import type { Tone } from '@/parts/Mark'

interface FigureProps {
  to: string
  search?: Record<string, string>
  hash?: string
  number: string
  says: string
  tone: Tone
  glyph: string
}

/** The five numbers to look at first; each leads to what it counts. */
export function Figures({ overview }: { overview: Api<'Overview'> }) {
  const { jobs, fleet, failed, findings_open: moved, alerts_open: alerts } = overview
  const ill = fleet.agents - fleet.healthy
  return (
    <ul className="figures" aria-label="In short">
      <Figure
        to="/campaigns"
        search={{ state: 'running' }}
        number={String(jobs.running)}
        says={`${jobs.running === 1 ? 'job runs' : 'jobs run'}, ${jobs.pending.toLocaleString('en-US')} wait`}
        tone={jobs.running > 0 ? 'going' : 'unknown'}
        glyph="▶"
      />
      <Figure
        to="/"
        hash={FAILED}
        number={atLeast(failed.length)}
        says={`${failed.length === 1 ? 'job' : 'jobs'} failed in 7 days`}
        tone={failed.length > 0 ? 'bad' : 'good'}
        glyph={failed.length > 0 ? '✕' : '✓'}
      />
      <Figure
        to="/series"
        search={{ tab: 'changes' }}
        number={moved.toLocaleString('en-US')}
        says={`open ${moved === 1 ? 'finding' : 'findings'}: a metric moved`}
        tone={moved > 0 ? 'warn' : 'good'}
        glyph={moved > 0 ? '!' : '✓'}
      />
      <Figure
        to="/alerts"
        number={alerts.toLocaleString('en-US')}
        says={`open ${alerts === 1 ? 'alert' : 'alerts'}`}
        tone={alerts > 0 ? 'bad' : 'good'}
        glyph={alerts > 0 ? '!' : '✓'}
      />
      <Figure
        to="/fleet"
        number={`${fleet.healthy} of ${fleet.agents}`}
        says={fleet.agents === 1 ? 'agent is healthy' : 'agents are healthy'}
        tone={fleet.agents === 0 ? 'unknown' : ill > 0 ? 'warn' : 'good'}
        glyph={fleet.agents === 0 ? '–' : ill > 0 ? '!' : '✓'}
      />
    </ul>
  )
}

// The server lists no more of them.
const MOST_FAILED = 10

function atLeast(shown: number): string {
  return shown >= MOST_FAILED ? `${MOST_FAILED} or more` : String(shown)
}

function Figure({ to, search, hash, number, says, tone, glyph }: FigureProps) {
  return (
    <li>
      <Link to={to} search={search as never} hash={hash} className={`figure ${tone}`}>
        <strong className="number">
          <span className="glyph" aria-hidden="true">
            {glyph}
          </span>{' '}
          {number}
        </strong>
        <span>{says}</span>
      </Link>
    </li>
  )
}
