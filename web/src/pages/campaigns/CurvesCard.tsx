import { useQuery } from '@tanstack/react-query'
import { campaignPanelsQuery } from '@/api/queries/campaigns'
import { Card } from '@/parts/Card'
import { Drawing } from '@/parts/Drawing'
import { Failure } from '@/parts/Failure'

/** The pictures over all jobs, drawn by the code that draws the HTML report. */
export function CurvesCard({ campaign, ended }: { campaign: string; ended: number }) {
  const panels = useQuery(campaignPanelsQuery(campaign, ended))
  if (panels.error) return <Failure error={panels.error} again={() => void panels.refetch()} />
  if (panels.data === undefined || panels.data.items.length === 0) return null
  return (
    <Card title="Pictures">
      <div className="drawings">
        {panels.data.items.map(({ key, title, says, svg, columns, rows, wide }, at, all) => {
          // How a kind of picture is read stands below the first of its kind.
          const isKnown = all.slice(0, at).some((before) => before.says === says)
          return (
            <div key={key} className={wide || all.length === 1 ? 'wide' : undefined}>
              <Drawing title={title} says={isKnown ? '' : says} svg={svg} columns={columns} rows={rows} />
            </div>
          )
        })}
      </div>
    </Card>
  )
}
