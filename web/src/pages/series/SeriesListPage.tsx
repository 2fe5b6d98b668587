import { useChoices } from '@/app/choices'
import { FindingsTable } from '@/pages/series/FindingsTable'
import { SeriesTable } from '@/pages/series/SeriesTable'
import { Page } from '@/parts/Page'
import { Tabs } from '@/parts/Tabs'
import '@/pages/series/series.css'
import '@/watching/watching.css'

const TABS = ['series', 'changes'] as const

/** Every series, and every change that was found in one. */
export default function SeriesListPage() {
  const { word, choose } = useChoices()
  const tabs = [
    { key: 'series', name: 'All series', content: <SeriesTable /> },
    { key: 'changes', name: 'What changed', content: <FindingsTable /> },
  ]
  return (
    <Page
      title="Series"
      lead="Results over time: one series for each metric of a benchmark on one kind of machine. Every new result is checked for changes."
    >
      <Tabs
        label="Series or changes"
        tabs={tabs}
        shown={word('tab', TABS)}
        onShow={(tab) => choose({ tab: tab === 'series' ? '' : tab })}
      />
    </Page>
  )
}
