import type { Choices } from '@/app/choices'
import type { Comparison } from '@/pages/compare/records'
import { Field } from '@/parts/Field'

interface MetricChoiceProps {
  found: Comparison
  choices: Choices /** Name of the choice of none, where that can be chosen. */
  some?: string
  shown?: string
}

/** Which metric is looked at; it is kept in the address. */
export function MetricChoice({ found, choices, some, shown = choices.text('metric') }: MetricChoiceProps) {
  const names = found.metrics.includes(shown) || shown === '' ? found.metrics : [shown, ...found.metrics]
  return (
    <Field label="Metric">
      {(id) => (
        <select id={id} value={shown} onChange={(event) => choices.choose({ metric: event.target.value })}>
          {some && <option value="">{some}</option>}
          {names.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      )}
    </Field>
  )
}
