import { useChoices } from '@/app/choices'
import { AlertTable } from '@/pages/alerts/AlertTable'
import { Notices } from '@/pages/alerts/Notices'
import { Rules } from '@/pages/alerts/Rules'
import { Page } from '@/parts/Page'
import { Tabs } from '@/parts/Tabs'
import '@/pages/alerts/alerts.css'

const TABS = ['alerts', 'rules', 'messages'] as const

/** Alerts, the rules that open them, and the messages that were sent. */
export default function AlertsPage() {
  const { word, choose } = useChoices()
  const tabs = [
    { key: 'alerts', name: 'Alerts', content: <AlertTable /> },
    { key: 'rules', name: 'Rules', content: <Rules /> },
    { key: 'messages', name: 'Messages', content: <Notices alert="" /> },
  ]
  return (
    <Page
      title="Alerts"
      lead="Problems that need attention: a series that got worse, a limit that was exceeded, failed jobs, missing results, lost agents. Rules decide what becomes an alert."
    >
      <Tabs
        label="Alerts, rules or messages"
        tabs={tabs}
        shown={word('tab', TABS)}
        onShow={(tab) => choose({ tab: tab === 'alerts' ? '' : tab, state: '' })}
      />
    </Page>
  )
}
