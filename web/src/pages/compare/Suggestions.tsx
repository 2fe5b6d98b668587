import { useQuery } from '@tanstack/react-query'
import type { Api } from '@/api/client'
import { campaignsFoundQuery } from '@/api/queries/compare'
import { Asked } from '@/parts/Asked'
import { Empty } from '@/parts/Empty'
import { Ago } from '@/parts/Time'

const MOST = 6

/** The newest campaign of each benchmark with the one before it: what one most often wants to compare. */
export function lastTwo(campaigns: Api<'CampaignSummary'>[]): [Api<'CampaignSummary'>, Api<'CampaignSummary'>][] {
  const ended = campaigns.filter((one) => one.state === 'done' || one.state === 'partial')
  const names = [...new Set(ended.map((one) => one.benchmark))]
  return names.flatMap((name): [Api<'CampaignSummary'>, Api<'CampaignSummary'>][] => {
    const [newest, before] = ended.filter((one) => one.benchmark === name)
    return newest && before ? [[before, newest]] : []
  })
}

/** What one sees before anything is chosen. */
export function Suggestions({ onChoose }: { onChoose: (sides: string[]) => void }) {
  const query = useQuery(campaignsFoundQuery(''))
  return (
    <Asked query={query} what="campaigns">
      {(page) => {
        const pairs = lastTwo(page.items).slice(0, MOST)
        if (pairs.length === 0)
          return (
            <Empty title="Choose two or more sides to compare.">
              <p>
                There is no benchmark yet with two finished campaigns. `assay run` the same file twice, or choose jobs,
                agents or labels.
              </p>
            </Empty>
          )
        return (
          <Empty title="Choose two or more sides to compare, or take the last two campaigns of a benchmark:">
            <ul className="suggestions">
              {pairs.map(([before, newest]) => (
                <li key={newest.id}>
                  <button
                    type="button"
                    className="button"
                    onClick={() => onChoose([`campaign:${before.id}`, `campaign:${newest.id}`])}
                  >
                    {newest.benchmark}
                  </button>{' '}
                  <span className="quiet">
                    <Ago at={before.created_at} /> against <Ago at={newest.created_at} />
                  </span>
                </li>
              ))}
            </ul>
          </Empty>
        )
      }}
    </Asked>
  )
}
