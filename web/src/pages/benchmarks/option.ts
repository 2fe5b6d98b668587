import type { CustomSeriesOption } from 'echarts/charts'
import type { EChartsCoreOption } from 'echarts/core'
import type { Colours } from '@/charts/colours'
import type { TrendPoint } from '@/pages/benchmarks/trend'
import { decimalsFor, show } from '@/parts/numbers'

const CAP_PX = 3

/** The newest results of one metric over time, each with its whisker. */
export function trendOption(
  points: readonly TrendPoint[],
  metric: string,
  unit: string,
): (colours: Colours) => EChartsCoreOption {
  return (colours) => ({
    grid: { left: 8, right: 16, top: 28, bottom: 4, containLabel: true },
    xAxis: {
      type: 'time',
      axisLabel: { color: colours.muted, hideOverlap: true },
      axisLine: { lineStyle: { color: colours.line } },
      splitLine: { show: false },
    },
    yAxis: {
      type: 'value',
      scale: true,
      name: unit ? `${metric} (${unit})` : metric,
      nameTextStyle: { color: colours.muted, align: 'left' },
      axisLabel: { color: colours.muted },
      splitLine: { lineStyle: { color: colours.grid } },
    },
    tooltip: { trigger: 'item', formatter: (at: { dataIndex: number }) => pointText(points[at.dataIndex], unit) },
    series: [
      {
        type: 'custom',
        silent: true,
        renderItem: whisker(colours.accent),
        encode: { x: 0, y: [1, 2] },
        data: points.map((one) => [one.at * 1000, one.low ?? one.value, one.high ?? one.value]),
        z: 1,
      },
      {
        type: 'line',
        data: points.map((one) => [one.at * 1000, one.value]),
        symbol: 'circle',
        symbolSize: 6,
        lineStyle: { width: 1.5, color: colours.accent },
        itemStyle: { color: colours.accent },
        z: 2,
      },
    ],
  })
}

function whisker(stroke: string): CustomSeriesOption['renderItem'] {
  return (_, api) => {
    const [x = 0, low = 0] = api.coord([api.value(0), api.value(1)])
    const [, high = 0] = api.coord([api.value(0), api.value(2)])
    const line = (x1: number, y1: number, x2: number, y2: number) => ({
      type: 'line' as const,
      shape: { x1, y1, x2, y2 },
      style: { stroke, lineWidth: 1.2, opacity: 0.6 },
    })
    return {
      type: 'group',
      children: [
        line(x, low, x, high),
        line(x - CAP_PX, low, x + CAP_PX, low),
        line(x - CAP_PX, high, x + CAP_PX, high),
      ],
    }
  }
}

function pointText(point: TrendPoint | undefined, unit: string): string {
  if (point === undefined) return ''
  const half = point.low === null || point.high === null ? null : (point.high - point.low) / 2
  const places = decimalsFor(point.value, half)
  const doubt =
    point.low === null || point.high === null
      ? '(no interval)'
      : `[${show(point.low, places)}, ${show(point.high, places)}]`
  return `${new Date(point.at * 1000).toLocaleString()}\n${show(point.value, places)} ${unit} ${doubt}`
}
