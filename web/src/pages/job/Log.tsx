import { useQuery } from '@tanstack/react-query'
import { useVirtualizer } from '@tanstack/react-virtual'
import { type RefObject, useEffect, useRef, useState } from 'react'
import type { Api } from '@/api/client'
import { type LogSoFar, logsQuery } from '@/api/queries/job'
import { useChoices } from '@/app/choices'
import { plain } from '@/pages/job/words'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { Empty } from '@/parts/Empty'
import { Field } from '@/parts/Field'
import { FindText } from '@/parts/Filters'

type Line = Api<'LogLine'>

// Lines come without an event of their own.
const EVERY_MS = 2_000
// Fewer lines than this are all drawn: the browser's own search then finds them.
const VIRTUAL_FROM = 500
const LINE_PX = 20
const OVERSCAN = 20

/** What the attempts of a job wrote, as it comes. */
export function Log({ job, going, attempts }: { job: string; going: boolean; attempts: number[] }) {
  const query = useQuery({ ...logsQuery(job), refetchInterval: going ? EVERY_MS : false })
  return (
    <Card
      title="Log"
      aside={
        going ? (
          <span className="quiet" role="status">
            New lines come by themselves.
          </span>
        ) : undefined
      }
    >
      <p className="quiet">The lines that the attempts at this job wrote, oldest first.</p>
      <Asked query={query} what="the log">
        {(log) => <Lines log={log} attempts={attempts} going={going} onMore={() => void query.refetch()} />}
      </Asked>
    </Card>
  )
}

interface LinesProps {
  log: LogSoFar
  attempts: number[]
  going: boolean
  onMore: () => void
}

function Lines({ log, attempts, going, onMore }: LinesProps) {
  const { text, choose } = useChoices()
  const [follow, setFollow] = useState(going)
  const [find, attempt] = [text('find'), text('attempt')]
  if (log.lines.length === 0) return <Empty title={going ? 'No line has come yet.' : 'The attempts wrote nothing.'} />
  const wanted = find.toLowerCase()
  const shown = log.lines.filter(
    (one) => (!attempt || String(one.fence) === attempt) && one.text.toLowerCase().includes(wanted),
  )
  return (
    <>
      <div className="filters">
        <FindText label="Find" value={find} onText={(next) => choose({ find: next }, true)} />
        {attempts.length > 1 && (
          <Field label="Attempt">
            {(id) => (
              <select id={id} value={attempt} onChange={(event) => choose({ attempt: event.target.value })}>
                <option value="">all</option>
                {attempts.map((one) => (
                  <option key={one} value={one}>
                    {one}
                  </option>
                ))}
              </select>
            )}
          </Field>
        )}
        <label className="stay">
          <input type="checkbox" checked={follow} onChange={(event) => setFollow(event.target.checked)} /> Stay at the
          end
        </label>
        <span className="quiet">
          {shown.length.toLocaleString('en-US')} of {log.lines.length.toLocaleString('en-US')} lines
        </span>
      </div>
      {shown.length > 0 ? <Shown lines={shown} follow={follow} /> : <Empty title="No line holds that." />}
      {log.more && (
        <p>
          <button type="button" className="button" onClick={onMore}>
            Read on: there are more lines
          </button>
        </p>
      )}
    </>
  )
}

function Shown({ lines, follow }: { lines: Line[]; follow: boolean }) {
  const box = useRef<HTMLDivElement>(null)
  const count = lines.length
  useEffect(() => {
    if (follow && count > 0 && box.current) box.current.scrollTop = box.current.scrollHeight
  }, [follow, count])
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached with the keyboard
    <div className="log" ref={box} tabIndex={0} role="log" aria-live="off" aria-label="Lines of the log">
      {count > VIRTUAL_FROM ? (
        <InSight lines={lines} box={box} />
      ) : (
        lines.map((line) => <OneLine key={line.id} line={line} />)
      )}
    </div>
  )
}

/** Of many lines only those in sight are drawn. */
function InSight({ lines, box }: { lines: Line[]; box: RefObject<HTMLDivElement | null> }) {
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_PX,
    overscan: OVERSCAN,
  })
  return (
    <div style={{ height: virtual.getTotalSize(), position: 'relative' }}>
      {virtual.getVirtualItems().map((item) => {
        const line = lines[item.index]
        return (
          line && (
            <div
              key={item.key}
              data-index={item.index}
              ref={virtual.measureElement}
              className="log-place"
              style={{ transform: `translateY(${item.start}px)` }}
            >
              <OneLine line={line} />
            </div>
          )
        )
      })}
    </div>
  )
}

function OneLine({ line }: { line: Line }) {
  return (
    <div className="log-line">
      <span className="log-time">{clock(line.at)}</span>
      <span>{plain(line.text)}</span>
    </div>
  )
}

const hours = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hour12: false,
})

function clock(at: number): string {
  return hours.format(new Date(at * 1000))
}
