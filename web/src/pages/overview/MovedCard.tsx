import { Link } from '@tanstack/react-router'
import type { Api } from '@/api/client'
import { Card } from '@/parts/Card'
import { Answer } from '@/parts/Mark'
import { Ago } from '@/parts/Time'
import { answerWords, changeWords, seriesName } from '@/watching/words'

/** Metrics whose history changed, unless the change is marked as expected. */
export function MovedCard({ findings, open }: { findings: Api<'KnownFinding'>[]; open: number }) {
  return (
    <Card
      title="What moved"
      aside={
        <Link to="/series" search={{ tab: 'changes' }}>
          {open > 0 ? `All ${open.toLocaleString('en-US')} open findings` : 'All findings'}
        </Link>
      }
    >
      {findings.length === 0 && (
        <p className="quiet">
          No metric has moved. A finding appears here when the history of a metric shows a change that is not noise.
        </p>
      )}
      <ul className="news">
        {findings.map(({ id, series, finding, triage, first_bad: since }) => (
          <li key={id}>
            <div className="news-line">
              <Link to="/series/$series" params={{ series: series.id }} hash={`finding-${id}`}>
                {seriesName({ ...series, labels: {} })}
              </Link>{' '}
              <span className="quiet small-print">
                <Ago at={since.at} />
              </span>
            </div>
            <div className="news-line small-print">
              <span>
                <Answer answer={answerWords(finding)} />{' '}
                <span className="number">{changeWords(finding, series.unit)}</span>
              </span>{' '}
              <span className="quiet">cause: {triage.cause}</span>
            </div>
          </li>
        ))}
      </ul>
    </Card>
  )
}
