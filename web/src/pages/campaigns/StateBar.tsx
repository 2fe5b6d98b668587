import { countsText, ENDED_STATES } from '@/pages/campaigns/words'

/** How many jobs have ended, and how, as one bar; the words stand beside it or are its name. */
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
      {ENDED_STATES.map((state) => {
        const share = jobs > 0 ? (counts[state] ?? 0) / jobs : 0
        return share > 0 && <span key={state} className={`part ${state}`} style={{ width: `${share * 100}%` }} />
      })}
    </div>
  )
}
