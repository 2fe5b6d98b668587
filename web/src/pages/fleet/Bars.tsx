import { useCallback, useMemo } from 'react'
import { Chart } from '@/charts/Chart'
import type { Colours } from '@/charts/colours'
import { decimalsFor, halfWidth, show } from '@/parts/numbers'

export interface Bar {
  name: string
  value: number
  interval: { low: number; high: number } | null | undefined
}

interface BarsProps {
  title: string
  unit: string
  better: string | null | undefined
  bars: Bar[]
}

const BAR_PX = 30
const ROOM_PX = 60

/** Horizontal bars from zero, each with its interval as a whisker. */
export function Bars({ title, unit, better, bars: given }: BarsProps) {
  // Pages rebuild the list on every render; the chart is rebuilt only when a number changed.
  const content = JSON.stringify(given)
  const bars = useMemo<Bar[]>(() => JSON.parse(content), [content])
  const option = useCallback((colours: Colours) => optionOf(bars, unit, colours), [bars, unit])
  const best = bars.toSorted((a, b) => (better === 'lower' ? a.value - b.value : b.value - a.value))[0]
  const says = best
    ? `${bars.length === 1 ? '' : 'best: '}${best.name}, ${words(best, unit)}${better ? `; ${better} is better` : ''}`
    : 'nothing was measured'
  const rows = {
    columns: ['name', `value (${unit})`, 'low', 'high'],
    rows: bars.map((bar) => [bar.name, bar.value, bar.interval?.low ?? null, bar.interval?.high ?? null]),
  }
  return (
    <Chart
      title={title}
      says={says}
      option={option}
      rows={rows}
      points={bars.length}
      height={ROOM_PX + BAR_PX * bars.length}
    />
  )
}

function words(bar: Bar, unit: string): string {
  const places = decimalsFor(bar.value, halfWidth(bar.interval))
  const doubt = bar.interval
    ? ` [${show(bar.interval.low, places)}, ${show(bar.interval.high, places)}]`
    : ' (no interval)'
  return `${show(bar.value, places)} ${unit}${doubt}`
}

interface Brush {
  value: (at: number) => number
  coord: (at: number[]) => number[]
}

function optionOf(bars: Bar[], unit: string, colours: Colours) {
  return {
    grid: { left: 10, right: 100, top: 10, bottom: 30, containLabel: true },
    tooltip: {
      trigger: 'item',
      formatter: ({ dataIndex }: { dataIndex: number }) => {
        const bar = bars[dataIndex]
        return bar ? `${bar.name}\n${words(bar, unit)}` : ''
      },
    },
    xAxis: {
      type: 'value',
      name: unit,
      nameTextStyle: { color: colours.muted },
      splitNumber: 4,
      axisLabel: { color: colours.muted, hideOverlap: true },
      splitLine: { lineStyle: { color: colours.grid } },
    },
    yAxis: {
      type: 'category',
      inverse: true,
      data: bars.map((bar) => bar.name),
      axisLabel: { color: colours.ink, width: 260, overflow: 'truncate' },
      axisTick: { show: false },
    },
    series: [
      {
        type: 'bar',
        barMaxWidth: 16,
        data: bars.map((bar) => bar.value),
        itemStyle: { color: colours.accent, opacity: 0.55 },
      },
      {
        type: 'custom',
        silent: true,
        z: 5,
        encode: { x: [1, 2], y: 0 },
        data: bars.map((bar, at) => [at, bar.interval?.low ?? bar.value, bar.interval?.high ?? bar.value]),
        renderItem: drawWhisker(bars, colours.ink),
      },
    ],
  }
}

/** The whisker of a bar, and its value behind it. */
const drawWhisker = (bars: Bar[], colour: string) => (at: { dataIndex: number }, api: Brush) => {
  const bar = bars[at.dataIndex]
  const [left = 0, y = 0] = api.coord([api.value(1), api.value(0)])
  const [right = 0] = api.coord([api.value(2), api.value(0)])
  if (bar === undefined) return null
  const line = (x1: number, y1: number, x2: number, y2: number) => ({
    type: 'line',
    shape: { x1, y1, x2, y2 },
    style: { stroke: colour, lineWidth: 1.5 },
  })
  const text = {
    type: 'text',
    style: {
      text: show(bar.value, decimalsFor(bar.value, halfWidth(bar.interval))),
      x: right + 8,
      y,
      fill: colour,
      fontSize: 12,
      verticalAlign: 'middle',
    },
  }
  return {
    type: 'group',
    children: [
      ...(bar.interval
        ? [line(left, y, right, y), line(left, y - 4, left, y + 4), line(right, y - 4, right, y + 4)]
        : []),
      text,
    ],
  }
}
