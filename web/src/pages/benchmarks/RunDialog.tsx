import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { type Api, client, ok } from '@/api/client'
import { benchmarkCheckQuery } from '@/api/queries/benchmarks'
import { useAct } from '@/app/acting'
import { labelsOf } from '@/pages/benchmarks/labels'
import { count } from '@/pages/campaigns/words'
import { Asked } from '@/parts/Asked'
import { Dialog } from '@/parts/Dialog'
import { Field } from '@/parts/Field'
import { Mark } from '@/parts/Mark'

/** Says what would happen, then submits. */
export function RunDialog({ stored, onClose }: { stored: Api<'StoredBenchmark'>; onClose: () => void }) {
  const check = useQuery(benchmarkCheckQuery(stored.name, stored.version))
  const [agent, setAgent] = useState('')
  const [labels, setLabels] = useState('')
  const run = useRun(stored, onClose)
  const given = labelsOf(labels)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (given !== null) run.mutate({ agent, labels: given })
  }
  const able = [...new Set(check.data?.placement.groups.flatMap((group) => group.agents))]
  return (
    <Dialog
      title={`Run ${stored.name}`}
      open
      onClose={onClose}
      description={`Version ${stored.version} becomes a new campaign.`}
    >
      <form onSubmit={submit}>
        <Asked query={check} what="what would happen">
          {(preview) => <Preview preview={preview} />}
        </Asked>
        <Field label="Agent" hint="Only this machine, or any that can take the jobs.">
          {(id) => (
            <select id={id} value={agent} onChange={(event) => setAgent(event.target.value)}>
              <option value="">any</option>
              {able.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          )}
        </Field>
        <Field
          label="Labels"
          hint="To find and compare it later: commit=91bc02e team=vision"
          wrong={given === null ? 'Write each as key=value, with spaces between.' : undefined}
        >
          {(id) => (
            <input
              id={id}
              value={labels}
              aria-invalid={given === null}
              onChange={(event) => setLabels(event.target.value)}
            />
          )}
        </Field>
        <div className="actions">
          <button type="submit" className="button primary" disabled={run.isPending || given === null}>
            Run
          </button>
          <button type="button" className="button" onClick={onClose}>
            Go back
          </button>
        </div>
      </form>
    </Dialog>
  )
}

function Preview({ preview: { jobs, placement, files_missing: lacking } }: { preview: Api<'BenchmarkPreview'> }) {
  return (
    <div role="status">
      <p>
        {placement.placeable ? (
          <Mark tone="good" glyph="✓" word={count(jobs, 'job')} />
        ) : (
          <Mark tone="warn" glyph="!" word={count(jobs, 'job')} />
        )}{' '}
        {placement.says}.
      </p>
      {!placement.placeable && <p className="quiet">They wait for an agent that can take them.</p>}
      {lacking.length > 0 && (
        <p>
          <Mark tone="bad" glyph="✕" word={`${count(lacking.length, 'file')} missing`} /> The server does not have them:
          submit the file once with `assay run`, which sends them along.
        </p>
      )}
    </div>
  )
}

function useRun({ name, version }: Api<'StoredBenchmark'>, onClose: () => void) {
  const navigate = useNavigate()
  return useAct({
    ask: (given: { agent: string; labels: Record<string, string> }) =>
      ok(client.POST('/api/v1/campaigns', { body: { benchmark: name, version, ...given } })),
    done: (answer) => `Submitted as ${answer.id}: ${count(answer.jobs, 'job')}`,
    failed: 'It was not submitted',
    touches: ['campaigns', 'overview', 'schedules'],
    after: (answer) => {
      onClose()
      void navigate({ to: '/campaigns/$campaign', params: { campaign: answer.id } })
    },
  })
}
