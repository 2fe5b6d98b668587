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
        {panels.data.items.map((one) => (
          <div key={one.key} className={one.wide ? 'wide' : undefined}>
            <Drawing title={one.title} says={one.says} svg={one.svg} columns={one.columns} rows={one.rows} />
          </div>
        ))}
      </div>
    </Card>
  )
}
