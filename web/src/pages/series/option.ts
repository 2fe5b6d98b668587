import type { EChartsCoreOption } from 'echarts/core'
import type { Colours } from '@/charts/colours'
import { bands, beyond, dots, verdictsIn, whiskers } from '@/pages/series/dots'
import { type Lane, laneMarks } from '@/pages/series/lanes'
import type { Trend } from '@/pages/series/trend'
import { turns } from '@/pages/series/turns'
import { show } from '@/parts/numbers'

const PLOT_PX = 290
const LANE_PX = 22
const TOP_PX = 30
const BETWEEN_PX = 34

export function chartHeight(lanes: number): number {
  return TOP_PX + PLOT_PX + BETWEEN_PX + (lanes > 0 ? lanes * LANE_PX + 8 : 0)
}

/** The chart of a series: points with whiskers, levels with bands, changes, and what happened around. */
export function trendOption(trend: Trend, lanes: Lane[], picked: string): (colours: Colours) => EChartsCoreOption {
  return (colours) => ({
    grid: grids(lanes),
    xAxis: timeAxes(trend, lanes, colours),
    yAxis: valueAxes(trend, lanes, colours),
    axisPointer: { link: [{ xAxisIndex: 'all' }], lineStyle: { color: colours.muted } },
    tooltip: { trigger: 'item' },
    legend: {
      top: 0,
      right: 10,
      itemWidth: 12,
      itemHeight: 10,
      textStyle: { color: colours.muted },
      data: verdictsIn(trend),
    },
    series: [
      bands(trend, colours),
      whiskers(trend, colours),
      ...dots(trend, picked, colours),
      beyond(trend, colours),
      turns(trend, colours),
      ...laneMarks(trend, lanes, colours),
    ],
  })
}

function grids(lanes: Lane[]): object[] {
  const plot = { left: 92, right: 24, top: TOP_PX, height: PLOT_PX }
  return lanes.length === 0
    ? [plot]
    : [plot, { left: 92, right: 24, top: TOP_PX + PLOT_PX + BETWEEN_PX, height: lanes.length * LANE_PX }]
}

function timeAxes(trend: Trend, lanes: Lane[], colours: Colours): object[] {
  const moments = [...trend.points.map((one) => one.at), ...lanes.flatMap((lane) => lane.marks.map((mark) => mark.at))]
  const scale = trend.counted ? 1 : 1000
  const first = moments.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY)
  const last = moments.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY)
  const room = (last - first || 1) * 0.015
  const axis = {
    type: trend.counted ? 'value' : 'time',
    min: (first - room) * scale,
    max: (last + room) * scale,
    axisPointer: { show: true, label: { show: false } },
  }
  const plot = {
    ...axis,
    axisLine: { lineStyle: { color: colours.line } },
    axisLabel: { color: colours.muted, hideOverlap: true, showMinLabel: false, showMaxLabel: false },
    splitLine: { show: false },
  }
  if (lanes.length === 0) return [plot]
  const quiet = { show: false }
  return [
    plot,
    { ...axis, gridIndex: 1, axisLine: quiet, axisTick: quiet, axisLabel: quiet, splitLine: quiet, position: 'top' },
  ]
}

function valueAxes(trend: Trend, lanes: Lane[], colours: Colours): object[] {
  const places = placesOf(trend.step)
  const plot = {
    type: 'value',
    min: trend.low,
    max: trend.high,
    interval: trend.step,
    name: trend.unit,
    nameLocation: 'end',
    nameTextStyle: { color: colours.muted, align: 'right' },
    axisLabel: { color: colours.muted, formatter: (value: number) => show(value, places) },
    splitLine: { lineStyle: { color: colours.grid } },
    axisPointer: { show: false },
  }
  if (lanes.length === 0) return [plot]
  const rows = {
    type: 'category',
    gridIndex: 1,
    inverse: true,
    data: lanes.map((lane) => lane.name),
    axisLine: { show: false },
    axisTick: { show: false },
    axisLabel: { color: colours.muted, fontSize: 11, interval: 0 },
    splitLine: { show: true, interval: 0, lineStyle: { color: colours.grid } },
    axisPointer: { show: false },
  }
  return [plot, rows]
}

/** As many decimals as a step of the axis has. */
function placesOf(step: number): number {
  let places = 0
  while (places < 12 && Math.abs(step * 10 ** places - Math.round(step * 10 ** places)) > 1e-6) places += 1
  return places
}
