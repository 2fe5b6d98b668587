import { countsText, JOB_STATES } from '@/pages/campaigns/words'

/** How many jobs are in which state, as one bar; the words stand beside it or are its name. */
export function StateBar({
  counts,
  jobs,
  ended,
}: {
  counts: Readonly<Record<string, number>>
  jobs: number
  ended: number
}) {
  const label = `${ended.toLocaleString('en-US')} of ${jobs.toLocaleString('en-US')} jobs ended: ${countsText(counts)}`
  return (
    <div className="state-bar" role="img" aria-label={label} title={label}>
      {JOB_STATES.map((state) => {
        const share = jobs > 0 ? (counts[state] ?? 0) / jobs : 0
        return share > 0 && <span key={state} className={`part ${state}`} style={{ width: `${share * 100}%` }} />
      })}
    </div>
  )
}
