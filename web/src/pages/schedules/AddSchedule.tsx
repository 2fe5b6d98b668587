import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { type Api, client, ok } from '@/api/client'
import { benchmarkNamesQuery, benchmarkQuery } from '@/api/queries/benchmarks'
import { useAct } from '@/app/acting'
import { useChoices } from '@/app/choices'
import { TimesForm } from '@/pages/schedules/TimesForm'
import { formOf, type ScheduleForm, sectionOf } from '@/pages/schedules/times'
import { Asked } from '@/parts/Asked'
import { Dialog } from '@/parts/Dialog'
import { Failure } from '@/parts/Failure'
import { Field } from '@/parts/Field'
import { FindText } from '@/parts/Filters'

/** Put a stored benchmark on a schedule: first which one, then when. */
export function AddSchedule({ benchmark, onClose }: { benchmark: string; onClose: () => void }) {
  const { choose } = useChoices()
  return (
    <Dialog
      title="Add a schedule"
      description="The server submits the benchmark as it is now, at each of the times. A schedule of the same benchmark is changed."
      open
      onClose={onClose}
    >
      <Which chosen={benchmark} onChoose={(next) => choose({ benchmark: next }, true)} />
      {benchmark && <Stored key={benchmark} name={benchmark} onClose={onClose} />}
    </Dialog>
  )
}

function Which({ chosen, onChoose }: { chosen: string; onChoose: (name: string) => void }) {
  const [text, setText] = useState('')
  const names = useQuery(benchmarkNamesQuery(text))
  return (
    <Asked query={names} what="benchmarks">
      {({ items, next }) =>
        items.length === 0 && !text && !chosen ? (
          <p>
            No benchmark is stored yet. <Link to="/benchmarks/new">Write one</Link> first.
          </p>
        ) : (
          <>
            {(next !== null || text) && <FindText label="Find a benchmark" value={text} onText={setText} />}
            <Field label="Benchmark">
              {(id) => (
                <select id={id} value={chosen} onChange={(event) => onChoose(event.target.value)}>
                  <option value="">choose one</option>
                  {chosen && !items.some((one) => one.name === chosen) && <option>{chosen}</option>}
                  {items.map((one) => (
                    <option key={one.name}>{one.name}</option>
                  ))}
                </select>
              )}
            </Field>
          </>
        )
      }
    </Asked>
  )
}

function Stored({ name, onClose }: { name: string; onClose: () => void }) {
  const stored = useQuery(benchmarkQuery(name))
  return (
    <Asked query={stored} what="the benchmark">
      {(found) => <When stored={found} onClose={onClose} />}
    </Asked>
  )
}

function When({ stored, onClose }: { stored: Api<'StoredBenchmark'>; onClose: () => void }) {
  const [form, setForm] = useState<ScheduleForm>(() => formOf(stored.document.schedule))
  const navigate = useNavigate()
  const act = useAct({
    ask: (given: ScheduleForm) =>
      ok(
        client.POST('/api/v1/schedules', {
          body: {
            document: { ...stored.document, schedule: sectionOf(given) },
            files: stored.files,
            benchmark: '',
            agent: '',
          },
        }),
      ),
    done: (made) => `${made.name} runs by itself`,
    touches: ['schedules', 'overview'],
    after: (made) => void navigate({ to: '/schedules/$schedule', params: { schedule: made.id } }),
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    act.mutate(form)
  }
  return (
    <form onSubmit={submit}>
      <TimesForm form={form} onChange={setForm} />
      {act.error && <Failure error={act.error} />}
      <div className="actions">
        <button type="submit" className="button primary" disabled={act.isPending}>
          Put it on the schedule
        </button>
        <button type="button" className="button" onClick={onClose}>
          Cancel
        </button>
      </div>
    </form>
  )
}
