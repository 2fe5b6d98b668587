import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import type { Api } from '@/api/client'
import { panelsQuery } from '@/api/queries/job'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { Drawing } from '@/parts/Drawing'
import { Empty } from '@/parts/Empty'

type Panel = Api<'Panel'>
type Group = Panel['group']

interface Chapter {
  title: string
  groups: Group[]
}

export type About = 'measured' | 'side' | 'load'

const CHAPTERS: Record<About, Chapter[]> = {
  measured: [
    { title: 'Tests of the device', groups: ['device'] },
    { title: 'Run by run', groups: ['latency', 'runs'] },
    { title: 'Over time', groups: ['time'] },
    { title: 'Cold start, memory and more', groups: ['cold', 'other'] },
  ],
  side: [{ title: 'Telemetry, on one time axis', groups: ['telemetry'] }],
  load: [{ title: 'Load', groups: ['load', 'llm'] }],
}

interface PicturesProps {
  job: string
  version: string
  about: About
  /** What is below the pictures. */
  children?: ReactNode
}

/** The pictures of a job, drawn by the code that draws the HTML report. */
export function Pictures({ job, version, about, children }: PicturesProps) {
  const query = useQuery(panelsQuery(job, version))
  return (
    <>
      <Asked query={query} what="the pictures">
        {(panels) => <Chapters panels={panels} chapters={CHAPTERS[about]} about={about} />}
      </Asked>
      {children}
    </>
  )
}

function Chapters({ panels, chapters, about }: { panels: Api<'Panels'>; chapters: Chapter[]; about: About }) {
  const filled = chapters.map((one) => ({
    ...one,
    items: panels.items.filter((item) => one.groups.includes(item.group)),
  }))
  const shown = filled.filter((one) => one.items.length > 0)
  const absent = Object.entries(panels.absent ?? {})
  return (
    <>
      {shown.map((one) => (
        <Card key={one.title} title={one.title}>
          <div className="drawings">
            {one.items.map((item) => (
              <Shown key={item.key} panel={item} />
            ))}
          </div>
        </Card>
      ))}
      {shown.length === 0 && (
        <Empty title={about === 'side' ? 'No telemetry was kept.' : 'There is nothing to draw.'}>
          <Absent absent={absent} />
        </Empty>
      )}
      {shown.length > 0 && about === 'measured' && absent.length > 0 && (
        <Card title="Not drawn">
          <Absent absent={absent} />
        </Card>
      )}
    </>
  )
}

function Shown({ panel }: { panel: Panel }) {
  return (
    <div className={panel.wide ? 'wide' : undefined}>
      <Drawing title={panel.title} says={panel.says} svg={panel.svg} columns={panel.columns} rows={panel.rows} />
    </div>
  )
}

function Absent({ absent }: { absent: [string, string][] }) {
  if (absent.length === 0) return null
  return (
    <ul className="plain-list">
      {absent.map(([key, why]) => (
        <li key={key}>
          <strong>{key}</strong>: {why}
        </li>
      ))}
    </ul>
  )
}
