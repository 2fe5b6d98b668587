import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { jobQuery } from '@/api/queries/job'
import { useChoices } from '@/app/choices'
import { usePollMs } from '@/app/live'
import { Actions } from '@/pages/job/Actions'
import { Answers, hasAnswers } from '@/pages/job/Answers'
import { Files } from '@/pages/job/Files'
import { at } from '@/pages/job/facts'
import { History } from '@/pages/job/History'
import { Judgement } from '@/pages/job/Judgement'
import { Log } from '@/pages/job/Log'
import { Machine } from '@/pages/job/Machine'
import { Numbers } from '@/pages/job/Numbers'
import { Pictures } from '@/pages/job/Pictures'
import { type Full, versionOf } from '@/pages/job/words'
import { Asked } from '@/parts/Asked'
import { Mark } from '@/parts/Mark'
import { Page } from '@/parts/Page'
import { type Tab, Tabs } from '@/parts/Tabs'
import './job.css'

export default function JobPage() {
  const { job = '' }: { job?: string } = useParams({ strict: false })
  const query = useQuery({ ...jobQuery(job), refetchInterval: usePollMs() })
  if (query.data === undefined) {
    return (
      <Page title="Job" crumbs={<Link to="/campaigns">Campaigns</Link>}>
        <Asked query={query} what={`the job ${job}`}>
          {() => null}
        </Asked>
      </Page>
    )
  }
  return <Job full={query.data} />
}

function Job({ full }: { full: Full }) {
  const { campaign, benchmark, label, agent_name: machine } = full.summary
  const hasPoint = Object.keys(full.summary.point ?? {}).length > 0
  const what = hasPoint ? "One point of the benchmark's matrix" : 'The whole benchmark, which has no matrix'
  const where = machine ? `, on ${machine}` : ''
  return (
    <Page
      title={hasPoint ? `${benchmark}: ${label}` : benchmark}
      crumbs={
        <>
          <Link to="/campaigns">Campaigns</Link> ›{' '}
          <Link to="/campaigns/$campaign" params={{ campaign } as never}>
            {campaign}
          </Link>{' '}
          › job {full.summary.index}
        </>
      }
      lead={`${what}${where}. First whether its numbers can be believed, then the numbers.`}
      actions={<Actions full={full} />}
    >
      <Simulated full={full} />
      <Judgement full={full} />
      <Parts full={full} />
    </Page>
  )
}

/** Data that nothing measured says so before anything else. */
function Simulated({ full }: { full: Full }) {
  const byLabel = full.document.labels?.demo === 'simulated' ? 'demo data: nothing of this was measured' : ''
  const source = at(full.result.environment, 'simulated') ?? byLabel
  if (typeof source !== 'string' || source === '') return null
  return (
    <p className="simulated">
      <Mark tone="unknown" glyph="◇" word="simulated" square /> {source}
    </p>
  )
}

function Parts({ full }: { full: Full }) {
  const choices = useChoices()
  const tabs = tabsOf(full)
  const asked = choices.text('tab')
  const shown = tabs.some((one) => one.key === asked) ? asked : (tabs[0]?.key ?? '')
  // A choice inside one tab means nothing in another.
  const show = (tab: string) => choices.choose({ tab, answer: undefined, find: undefined, attempt: undefined })
  return <Tabs label="Parts of the job" tabs={tabs} shown={shown} onShow={show} />
}

function tabsOf(full: Full): Tab[] {
  const job = full.summary.id
  const version = versionOf(full)
  const going = full.summary.state === 'running' || full.summary.state === 'pending'
  const pictures: Tab = {
    key: 'pictures',
    name: 'Pictures',
    content: <Pictures job={job} version={version} about="measured" />,
  }
  const side: Tab = {
    key: 'side',
    name: 'Telemetry',
    content: (
      <Pictures job={job} version={version} about="side">
        <Machine full={full} part="seen" />
      </Pictures>
    ),
  }
  const numbers: Tab = { key: 'numbers', name: 'Numbers and runs', content: <Numbers full={full} /> }
  const answers: Tab = { key: 'answers', name: 'Load and answers', content: <Answers full={full} version={version} /> }
  const log: Tab = {
    key: 'log',
    name: 'Log',
    content: <Log job={job} going={going} attempts={full.attempts.map((one) => one.fence)} />,
  }
  const rest: Tab[] = [
    { key: 'environment', name: 'Environment', content: <Machine full={full} part="environment" /> },
    { key: 'files', name: 'Files', content: <Files full={full} /> },
    { key: 'history', name: 'Attempts and history', content: <History full={full} /> },
  ]
  if (full.summary.state === 'done')
    return [pictures, numbers, side, ...(hasAnswers(full) ? [answers] : []), log, ...rest]
  // Where nothing was measured yet, or never will be, the log tells what happens.
  return full.result.runs.length > 0 ? [log, numbers, side, ...rest] : [log, ...rest]
}
