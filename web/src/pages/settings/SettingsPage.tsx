import { useChoices } from '@/app/choices'
import { About } from '@/pages/settings/About'
import { Channels } from '@/pages/settings/Channels'
import { Prices } from '@/pages/settings/Prices'
import { ThemeChoice } from '@/pages/settings/ThemeChoice'
import { Tokens } from '@/pages/settings/Tokens'
import { Page } from '@/parts/Page'
import { Tabs } from '@/parts/Tabs'
import './settings.css'

export default function SettingsPage() {
  const choices = useChoices()
  return (
    <Page
      title="Settings"
      lead="Who may use this server, how it notifies people, what machines cost, and how this dashboard looks."
    >
      <Tabs
        label="Settings"
        shown={choices.word('tab', ['tokens', 'notifiers', 'prices', 'theme', 'about'])}
        onShow={(tab) => choices.choose({ tab: tab === 'tokens' ? undefined : tab })}
        tabs={[
          { key: 'tokens', name: 'Tokens', content: <Tokens /> },
          { key: 'notifiers', name: 'Notifiers', content: <Channels /> },
          { key: 'prices', name: 'Prices', content: <Prices /> },
          { key: 'theme', name: 'Theme', content: <ThemeChoice /> },
          { key: 'about', name: 'About', content: <About /> },
        ]}
      />
    </Page>
  )
}
