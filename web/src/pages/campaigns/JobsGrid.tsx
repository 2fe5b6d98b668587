import { useMemo } from 'react'
import type { Api } from '@/api/client'
import { useChoices } from '@/app/choices'
import { GridSheet } from '@/pages/campaigns/GridSheet'
import { type Axis, axesOf, chosenAxes, EACH, NONE, sheetsOf } from '@/pages/campaigns/grid'
import { type Scale, scaleOf } from '@/pages/campaigns/Whisker'
import { Field } from '@/parts/Field'
import { show } from '@/parts/numbers'

type Job = Api<'JobSummary'>
type Result = Api<'ResultView'>
type Chosen = ReturnType<typeof chosenAxes>

/** The jobs of a campaign by two axes of its matrix; filled as results arrive. */
export function JobsGrid({ jobs, all, results }: { jobs: Job[]; all: number; results: Result[] }) {
  const { text, choose } = useChoices()
  const axes = useMemo(() => axesOf(jobs), [jobs])
  const chosen = chosenAxes(axes, { rows: text('rows'), columns: text('columns') })
  const names = metricsOf(results)
  const metric = names.includes(text('metric')) ? text('metric') : (names[0] ?? '')
  const byJob = useMemo(() => new Map(results.map((one) => [one.job, one])), [results])
  const measured = results.flatMap((one) => one.metrics[metric] ?? [])
  const scale = scaleOf(measured)
  return (
    <>
      {all > jobs.length && (
        <p className="quiet">
          The first {jobs.length} of {all.toLocaleString('en-US')} jobs; the table has all.
        </p>
      )}
      <div className="filters">
        <AxisFields axes={axes} chosen={chosen} onChoose={choose} />
        <Select
          label="Metric"
          value={metric}
          options={names.length > 0 ? names.map((name) => [name, name]) : [['', 'none yet']]}
          onChoose={(next) => choose({ metric: next })}
        />
      </div>
      <p className="quiet">{says(metric, scale, measured[0])}</p>
      {sheetsOf(jobs, axes, chosen.rows, chosen.columns).map((sheet) => (
        <GridSheet
          key={sheet.title}
          sheet={sheet}
          axes={axes}
          rows={chosen.rows}
          columns={chosen.columns}
          results={byJob}
          metric={metric}
          scale={scale}
        />
      ))}
    </>
  )
}

function AxisFields({
  axes,
  chosen: { rows, columns },
  onChoose,
}: {
  axes: Axis[]
  chosen: Chosen
  onChoose: (chosen: Chosen) => void
}) {
  const options = axes.map((axis): [string, string] => [axis.path, axis.path])
  // What was chosen for one side leaves the other.
  const chooseRows = (next: string) =>
    onChoose({ rows: next, columns: next === columns ? (rows === EACH ? NONE : rows) : columns })
  const chooseColumns = (next: string) =>
    onChoose({ rows: next === rows ? (columns === NONE ? EACH : columns) : rows, columns: next })
  return (
    <>
      <Select label="Rows" value={rows} options={[...options, [EACH, 'each job']]} onChoose={chooseRows} />
      {rows !== EACH && (
        <Select label="Columns" value={columns} options={[...options, [NONE, 'none']]} onChoose={chooseColumns} />
      )}
    </>
  )
}

function Select({
  label,
  value,
  options,
  onChoose,
}: {
  label: string
  value: string
  options: [string, string][]
  onChoose: (value: string) => void
}) {
  return (
    <Field label={label}>
      {(id) => (
        <select id={id} value={value} onChange={(event) => onChoose(event.target.value)}>
          {options.map(([key, name]) => (
            <option key={key} value={key}>
              {name}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

function metricsOf(results: readonly Result[]): string[] {
  return [...new Set(results.flatMap((one) => Object.keys(one.metrics)))]
}

function says(metric: string, scale: Scale | null, first: Api<'MetricView'> | undefined): string {
  if (scale === null || first === undefined)
    return 'Each cell is one job. Its number appears here once it has been measured.'
  const level = first.interval?.level
  const doubt = level
    ? `its ${Math.round(level * 100)} % interval from the spread between runs`
    : 'its interval, where there is more than one run'
  return `Each cell is one job: its verdict, and the median of ${metric} with ${doubt}. All marks share one ${scale.log ? 'logarithmic ' : ''}scale, from ${show(scale.low)} to ${show(scale.high)} ${first.unit}.`
}
