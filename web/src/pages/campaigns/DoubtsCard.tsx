import type { Api } from '@/api/client'
import { count } from '@/pages/campaigns/words'
import { Card } from '@/parts/Card'
import { Mark, type Tone } from '@/parts/Mark'

type Written = Api<'WrittenAnswer'>

const MARKS: Record<Written['doubts'][number]['severity'], [Tone, string, string]> = {
  invalid: ['bad', '✕', 'invalid'],
  missed: ['bad', '✕', 'missed'],
  undecided: ['unknown', '◆', 'cannot tell'],
  suspect: ['warn', '!', 'suspect'],
  advice: ['unknown', 'i', 'advice'],
}

interface Reason {
  key: string
  mark: [Tone, string, string]
  title: string
  jobs: string[]
  worst: string
  remedy: string
  written?: string[]
}

/** Every reason for doubt and for failure once, with the jobs that it concerns and what to do about it. */
export function DoubtsCard({ answer }: { answer: Written }) {
  const reasons = reasonsOf(answer)
  if (reasons.length === 0) return null
  const label = new Map(answer.lines.map((line) => [line.job, line.label]))
  return (
    <Card title="Reasons for doubt">
      <ul className="doubts">
        {reasons.map(({ key, mark: [tone, glyph, word], title, jobs, worst, remedy, written = [] }) => (
          <li key={key}>
            <Mark tone={tone} glyph={glyph} word={word} />
            <div>
              <p>
                <strong>{title}</strong>{' '}
                <span className="quiet" title={jobs.map((job) => label.get(job) ?? job).join('\n')}>
                  {count(jobs.length, 'job')}
                </span>
              </p>
              <p>{worst}</p>
              {written.length > 0 && <pre>{written.join('\n')}</pre>}
              {remedy && <p className="quiet">→ {remedy}</p>}
            </div>
          </li>
        ))}
      </ul>
      {answer.more_doubts > 0 && (
        <p className="quiet">{count(answer.more_doubts, 'more reason')}: see the pages of the jobs.</p>
      )}
    </Card>
  )
}

function reasonsOf({ doubts, failures }: Written): Reason[] {
  return [
    ...failures.map((one) => ({
      key: `failed ${one.code}`,
      mark: ['bad', '✕', 'failed'] as [Tone, string, string],
      title: one.code,
      jobs: one.jobs,
      worst: one.message,
      remedy: one.remedy,
      written: one.last_lines,
    })),
    ...doubts.map((one) => ({
      key: `${one.severity} ${one.check}`,
      mark: MARKS[one.severity],
      title: one.title,
      jobs: one.jobs,
      worst: one.worst,
      remedy: one.remedy,
    })),
  ]
}
