import type { Api } from '@/api/client'
import { useChoices } from '@/app/choices'
import { axesOf } from '@/pages/campaigns/grid'
import { JobsGrid } from '@/pages/campaigns/JobsGrid'
import { JobsTable } from '@/pages/campaigns/JobsTable'
import { Card } from '@/parts/Card'
import { Tabs } from '@/parts/Tabs'

interface Props {
  campaign: Api<'CampaignDetail'>
  results: Api<'ResultView'>[]
  answer: Api<'WrittenAnswer'> | undefined
}

/** The jobs of a campaign with what they measured: as a table, the best first, or as a grid over the matrix. */
export function JobsCard({ campaign, results, answer }: Props) {
  const { text, choose } = useChoices()
  const done = campaign.counts.done ?? 0
  const table = <JobsTable campaign={campaign} results={results} answer={answer} />
  const grid = <JobsGrid jobs={campaign.job_list} all={campaign.jobs} results={results} />
  const hasMatrix = axesOf(campaign.job_list).some((axis) => axis.values.length > 1)
  // An address that names axes is about the grid.
  const view = text('view', text('rows') || text('columns') ? 'grid' : 'table')
  return (
    <Card
      title="Jobs"
      aside={
        <span className="quiet">
          {done.toLocaleString('en-US')} of {campaign.jobs.toLocaleString('en-US')} jobs were measured
        </span>
      }
    >
      {hasMatrix ? (
        <Tabs
          label="How the jobs are laid out"
          shown={view}
          onShow={(next) => choose({ view: next })}
          tabs={[
            { key: 'table', name: 'Table', content: table },
            { key: 'grid', name: 'Grid', content: grid },
          ]}
        />
      ) : (
        table
      )}
    </Card>
  )
}
