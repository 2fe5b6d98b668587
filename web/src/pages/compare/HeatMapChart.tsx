import { useNavigate } from '@tanstack/react-router'
import { useCallback, useMemo } from 'react'
import type { Choices } from '@/app/choices'
import { Chart } from '@/charts/Chart'
import type { Colours } from '@/charts/colours'
import { axesOf, type Field, type HeatMap, layOut } from '@/pages/compare/heat'
import { MetricChoice } from '@/pages/compare/MetricChoice'
import type { Comparison } from '@/pages/compare/records'
import { Empty } from '@/parts/Empty'
import { Field as Labelled } from '@/parts/Field'

const ROW_PX = 34
const ROOM_PX = 90

/** One metric of all jobs as a map: how far each is from the base, and whether the difference is proven. */
export function HeatMapChart({ found, choices }: { found: Comparison; choices: Choices }) {
  const metric = choices.text('metric', found.rows[0]?.metric ?? '')
  const axes = axesOf(found)
  const rows = chosen(axes, choices.text('rows'), 'job')
  const columns = chosen(axes, choices.text('columns'), 'side')
  const map = useMemo(() => layOut(found, metric, rows, columns), [found, metric, rows, columns])
  return (
    <>
      <div className="filters">
        <MetricChoice found={found} choices={choices} shown={metric} />
        <Axis label="Rows" axes={axes} value={rows} onChoose={(next) => choices.choose({ rows: next })} />
        <Axis label="Columns" axes={axes} value={columns} onChoose={(next) => choices.choose({ columns: next })} />
      </div>
      <p className="quiet legend">
        ▲ better · ▼ worse · ◆ cannot tell · = the base. The stronger the shade, the larger the change.
      </p>
      <h2>{metricTitle(found, metric)}</h2>
      {map.fields.length === 0 ? (
        <Empty title={`No side has a number of ${metric || 'any metric'}.`} />
      ) : (
        <div className="card">
          <Drawing map={map} metric={metric} />
        </div>
      )}
    </>
  )
}

function metricTitle(found: Comparison, metric: string): string {
  const row = found.rows.find((one) => one.metric === metric)
  return `${metric}${row?.better ? `: ${row.better} is better` : ''}, change against ${found.sides[0]?.name ?? 'the base'}`
}

const chosen = (axes: string[], wish: string, otherwise: string) => (axes.includes(wish) ? wish : otherwise)

function Axis({
  label,
  axes,
  value,
  onChoose,
}: {
  label: string
  axes: string[]
  value: string
  onChoose: (axis: string) => void
}) {
  return (
    <Labelled label={label}>
      {(id) => (
        <select id={id} value={value} onChange={(event) => onChoose(event.target.value)}>
          {axes.map((axis) => (
            <option key={axis}>{axis}</option>
          ))}
        </select>
      )}
    </Labelled>
  )
}

function Drawing({ map, metric }: { map: HeatMap; metric: string }) {
  const navigate = useNavigate()
  const option = useCallback((colours: Colours) => optionOf(map, colours), [map])
  const onPick = useCallback(
    ({ dataIndex }: { dataIndex: number }) => {
      const job = map.fields[dataIndex]?.job
      if (job) void navigate({ to: '/jobs/$job', params: { job } })
    },
    [map, navigate],
  )
  const count = (answer: string) => map.fields.filter((field) => field.answer === answer).length
  const says = `${map.rows.length} × ${map.columns.length} fields: ${count('better')} better, ${count('worse')} worse, ${count('cannot tell')} cannot tell`
  const rows = {
    columns: ['row', 'column', 'answer', 'change'],
    rows: map.fields.map((field) => [
      map.rows[field.row] ?? '',
      map.columns[field.column] ?? '',
      field.answer,
      field.change,
    ]),
  }
  return (
    <Chart
      title={`Heat map of ${metric}`}
      says={says}
      option={option}
      rows={rows}
      points={map.fields.length}
      height={ROOM_PX + ROW_PX * map.rows.length}
      onPick={onPick}
    />
  )
}

function optionOf(map: HeatMap, colours: Colours) {
  const name = { color: colours.ink, fontSize: 12, width: 220, overflow: 'truncate' }
  return {
    grid: { left: 10, right: 10, top: 10, bottom: 10, containLabel: true },
    tooltip: {
      trigger: 'item',
      formatter: ({ dataIndex }: { dataIndex: number }) => map.fields[dataIndex]?.detail ?? '',
    },
    xAxis: {
      type: 'category',
      data: map.columns,
      position: 'top',
      axisLabel: { ...name, interval: 0, width: 190 },
      axisTick: { show: false },
      axisLine: { show: false },
    },
    yAxis: {
      type: 'category',
      data: map.rows,
      inverse: true,
      axisLabel: name,
      axisTick: { show: false },
      axisLine: { show: false },
    },
    series: [
      {
        type: 'custom',
        data: map.fields.map((field) => [field.column, field.row]),
        renderItem: drawField(map.fields, colours),
        encode: { x: 0, y: 1 },
      },
    ],
  }
}

interface Brush {
  value: (at: number) => number
  coord: (at: number[]) => number[]
  size: (span: number[]) => number[]
}

const drawField = (fields: Field[], colours: Colours) => (at: { dataIndex: number }, api: Brush) => {
  const field = fields[at.dataIndex]
  const [x = 0, y = 0] = api.coord([api.value(0), api.value(1)])
  const [wide = 0, high = 0] = api.size([1, 1])
  if (field === undefined) return null
  const isUndecided = field.answer === 'cannot tell'
  const colour = { better: colours.good, worse: colours.bad }[field.answer] ?? colours.unknown
  const shape = { x: x - wide / 2 + 1, y: y - high / 2 + 1, width: wide - 2, height: high - 2, r: 3 }
  // Soft enough that the ink on top stays readable in both themes.
  const opacity = field.answer === 'better' || field.answer === 'worse' ? 0.12 + 0.33 * field.strength : 0.08
  return {
    type: 'group',
    children: [
      { type: 'rect', shape, style: { fill: colour, opacity } },
      {
        type: 'rect',
        shape,
        style: { fill: 'transparent', stroke: isUndecided ? colours.unknown : 'transparent', lineDash: [3, 3] },
      },
      {
        type: 'text',
        style: {
          text: field.text,
          x,
          y,
          fill: colours.ink,
          align: 'center',
          verticalAlign: 'middle',
          fontSize: 12,
          width: wide - 6,
          overflow: 'truncate',
        },
      },
    ],
  }
}
