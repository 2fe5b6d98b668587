import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, useDeferredValue, useState } from 'react'
import { campaignsFoundQuery, jobsFoundQuery } from '@/api/queries/compare'
import { agentsQuery } from '@/api/queries/fleet'
import { KINDS, type Kind, MOST_SIDES } from '@/pages/compare/records'
import { Asked } from '@/parts/Asked'
import { Dialog } from '@/parts/Dialog'
import { Field } from '@/parts/Field'
import { FindText } from '@/parts/Filters'
import { State, Verdict } from '@/parts/Mark'
import { Tabs } from '@/parts/Tabs'
import { Ago } from '@/parts/Time'

interface PickerProps {
  open: boolean
  sides: string[]
  onChange: (sides: string[]) => void
  onClose: () => void
}

const NAMES: Record<Kind, string> = { campaign: 'Campaigns', job: 'Jobs', agent: 'Agents', label: 'Labels' }

/** Choose what to compare: campaigns, jobs, machines, or everything that bears a label. */
export function SidePicker({ open, sides, onChange, onClose }: PickerProps) {
  const [kind, setKind] = useState<string>('campaign')
  const toggle = (side: string) =>
    onChange(sides.includes(side) ? sides.filter((one) => one !== side) : [...sides, side])
  const picking = { sides, toggle }
  const lists: Record<Kind, ReactNode> = {
    campaign: <Campaigns {...picking} />,
    job: <Jobs {...picking} />,
    agent: <Agents {...picking} />,
    label: <Labels {...picking} />,
  }
  return (
    <Dialog
      title="Choose what to compare"
      description={`Two to ${MOST_SIDES} sides; the first is the base. ${sides.length} chosen.`}
      open={open}
      onClose={onClose}
    >
      <Tabs
        label="Kind of side"
        shown={kind}
        onShow={setKind}
        tabs={KINDS.map((key) => ({ key, name: NAMES[key], content: lists[key] }))}
      />
      <p className="actions">
        <button type="button" className="button primary" onClick={onClose}>
          Done
        </button>
      </p>
    </Dialog>
  )
}

interface Picking {
  sides: string[]
  toggle: (side: string) => void
}

function Pick({ side, name, sides, toggle, children }: Picking & { side: string; name: string; children?: ReactNode }) {
  const isChosen = sides.includes(side)
  return (
    <li>
      <label className="pick">
        <input
          type="checkbox"
          checked={isChosen}
          disabled={!isChosen && sides.length >= MOST_SIDES}
          onChange={() => toggle(side)}
        />
        <span>
          <strong>{name}</strong> <span className="quiet">{children}</span>
        </span>
      </label>
    </li>
  )
}

function None({ when }: { when: boolean }) {
  return when ? <p className="quiet">Nothing fits.</p> : null
}

function Campaigns(picking: Picking) {
  const [text, setText] = useState('')
  const query = useQuery(campaignsFoundQuery(useDeferredValue(text)))
  return (
    <>
      <FindText label="Part of an id, a benchmark or a label" value={text} onText={setText} />
      <Asked query={query} what="campaigns">
        {(page) => (
          <ul className="picks">
            <None when={page.items.length === 0} />
            {page.items.map((one) => (
              <Pick key={one.id} side={`campaign:${one.id}`} name={one.benchmark} {...picking}>
                {one.id} · {one.jobs} {one.jobs === 1 ? 'job' : 'jobs'} · <Ago at={one.created_at} />{' '}
                <State state={one.state} />
              </Pick>
            ))}
          </ul>
        )}
      </Asked>
    </>
  )
}

function Jobs(picking: Picking) {
  const [text, setText] = useState('')
  const query = useQuery(jobsFoundQuery(useDeferredValue(text)))
  return (
    <>
      <FindText label="Part of an id, a benchmark or a point of its matrix" value={text} onText={setText} />
      <Asked query={query} what="jobs">
        {(page) => (
          <ul className="picks">
            <None when={page.items.length === 0} />
            {page.items.map((one) => (
              <Pick key={one.id} side={`job:${one.id}`} name={one.label || one.benchmark} {...picking}>
                {one.benchmark} · {one.id} · {one.agent_name ?? 'this machine'} · <Ago at={one.ended_at} />{' '}
                <Verdict verdict={one.verdict} />
              </Pick>
            ))}
          </ul>
        )}
      </Asked>
    </>
  )
}

function Agents(picking: Picking) {
  const [text, setText] = useState('')
  const query = useInfiniteQuery(agentsQuery())
  const all = query.data?.pages.flatMap((page) => page.items) ?? []
  const found = all.filter((one) => one.name.toLowerCase().includes(text.toLowerCase()))
  return (
    <>
      <FindText label="Part of a name" value={text} onText={setText} />
      <ul className="picks">
        <None when={!query.isPending && found.length === 0} />
        {found.slice(0, 100).map((one) => (
          <Pick key={one.id} side={`agent:${one.name}`} name={one.name} {...picking}>
            {one.profile.os}, {one.profile.cpus} cores {one.profile.gpu_model}
          </Pick>
        ))}
      </ul>
    </>
  )
}

function Labels({ sides, toggle }: Picking) {
  const [text, setText] = useState('')
  const query = useQuery(campaignsFoundQuery(''))
  const known = [
    ...new Set(query.data?.items.flatMap((one) => Object.entries(one.labels).map(([key, value]) => `${key}=${value}`))),
  ].sort()
  const add = (event: FormEvent) => {
    event.preventDefault()
    toggle(`label:${text.trim()}`)
    setText('')
  }
  return (
    <>
      <form onSubmit={add} className="filters">
        <Field label="Label" hint="The newest results with this label.">
          {(id) => (
            <input
              id={id}
              required
              pattern="[^=]+=.+"
              placeholder="branch=main"
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          )}
        </Field>
        <button type="submit" className="button" disabled={sides.length >= MOST_SIDES}>
          Add
        </button>
      </form>
      {known.length > 0 && <h3>Labels of the newest campaigns</h3>}
      <ul className="picks">
        {known.map((one) => (
          <Pick key={one} side={`label:${one}`} name={one} sides={sides} toggle={toggle} />
        ))}
      </ul>
    </>
  )
}
