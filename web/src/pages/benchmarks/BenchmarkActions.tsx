import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { type Api, client, ok } from '@/api/client'
import { useAct } from '@/app/acting'
import { useRights } from '@/app/rights'
import { RunDialog } from '@/pages/benchmarks/RunDialog'
import { ScheduleDialog, type When } from '@/pages/editor/ScheduleDialog'
import { Confirm } from '@/parts/Confirm'

type Stored = Api<'StoredBenchmark'>

/** What can be done with a stored benchmark. */
export function BenchmarkActions({ stored }: { stored: Stored }) {
  const [shown, setShown] = useState<'run' | 'schedule' | null>(null)
  const { schedule, remove } = useChanges(stored)
  const close = () => setShown(null)
  if (!useRights().use) return null
  return (
    <>
      <button type="button" className="button primary" onClick={() => setShown('run')}>
        Run now
      </button>
      <button type="button" className="button" onClick={() => setShown('schedule')}>
        Schedule
      </button>
      <Link
        to="/benchmarks/new"
        search={{ from: stored.name, ...(stored.version === stored.newest ? {} : { version: stored.version }) }}
        className="button"
      >
        Edit
      </Link>
      <Confirm
        word="Remove"
        title={`Take ${stored.name} off the list?`}
        danger
        disabled={remove.isPending}
        onConfirm={() => remove.mutate()}
      >
        <p>Its campaigns and their results stay. Its schedule, if it has one, stays too.</p>
      </Confirm>
      {shown === 'run' && <RunDialog stored={stored} onClose={close} />}
      <ScheduleDialog
        open={shown === 'schedule'}
        onClose={close}
        onWhen={(when) => {
          close()
          schedule.mutate(when)
        }}
      />
    </>
  )
}

function useChanges({ name, document, files }: Stored) {
  const navigate = useNavigate()
  const schedule = useAct({
    ask: (when: When) =>
      ok(
        client.POST('/api/v1/schedules', {
          body: {
            agent: '',
            benchmark: '',
            document: { ...document, schedule: { cron: when.cron, timezone: when.timezone } },
            files,
          },
        }),
      ),
    done: (answer) => `${name} runs by itself${answer.next[0] ? `, next at ${answer.next[0].local}` : ''}`,
    failed: 'It was not scheduled',
    touches: ['schedules', 'schedule'],
  })
  const remove = useAct({
    ask: () => ok(client.DELETE('/api/v1/benchmarks/{name}', { params: { path: { name } } })),
    done: () => `${name} is off the list`,
    failed: 'It stays on the list',
    touches: ['benchmarks'],
    after: () => void navigate({ to: '/benchmarks' }),
  })
  return { schedule, remove }
}
