import type { Colours } from '@/charts/colours'
import type { Frontier, FrontPoint } from '@/pages/compare/records'
import { decimalsFor, halfWidth, show } from '@/parts/numbers'

const SHAPES = ['circle', 'rect', 'triangle', 'diamond', 'pin', 'arrow', 'roundRect', 'circle']
const WHISKER_END_PX = 3

interface Drawing {
  value: (at: number) => number
  coord: (at: number[]) => number[]
}

/** The points of the front in the order of x: points that no other point improves on both axes. */
export function frontOf(found: Frontier): FrontPoint[] {
  return found.points.filter((point) => point.on_front).toSorted((a, b) => a.x - b.x)
}

export function valueWords(
  value: number,
  interval: { low: number; high: number } | null | undefined,
  unit: string,
): string {
  const places = decimalsFor(value, halfWidth(interval))
  const doubt = interval ? ` [${show(interval.low, places)}, ${show(interval.high, places)}]` : ' (no interval)'
  return `${show(value, places)} ${unit}${doubt}`
}

export function standing(point: FrontPoint): string {
  if (!point.on_front) return 'another result is better on both (by median)'
  return point.surely ? 'on the front' : 'on the front by its median; the intervals cannot tell'
}

const PER = { watt: ' per watt', dollar: ' per price' } as const

export type Per = keyof typeof PER

/** A metric, with what it was divided by. */
export function metricName(axis: Frontier['x'], per?: Per): string {
  return `${axis.metric}${per ? PER[per] : ''}`
}

export function axisName(axis: Frontier['x'], per?: Per): string {
  return `${metricName(axis, per)}${axis.unit ? ` (${axis.unit})` : ''}${axis.better ? `, ${axis.better} is better` : ''}`
}

// From here on one axis would press most points into a corner.
const WIDE = 30

/** Whether an axis is logarithmic: as was chosen, else where its values differ by more than a factor of 30. */
export function isLog(values: number[], wish: string): boolean {
  const low = Math.min(...values)
  if (values.length === 0 || !(low > 0) || wish === 'linear') return false
  return wish === 'log' || Math.max(...values) / low > WIDE
}

/** The chart: a shape and a colour per side, whiskers both ways, the front as a dashed line. */
export function optionOf(
  found: Frontier,
  sides: { key: string; name: string }[],
  colours: Colours,
  scale = '',
  per?: Per,
) {
  const axis = (of: Frontier['x'], gap: number, log: boolean, by?: Per) => ({
    type: log ? 'log' : 'value',
    scale: true,
    name: `${axisName(of, by)}${log ? ', logarithmic' : ''}`,
    nameLocation: 'middle',
    nameGap: gap,
    nameTextStyle: { color: colours.muted },
    axisLabel: { color: colours.muted },
    splitLine: { lineStyle: { color: colours.grid } },
  })
  const series = sides.map((side, at) =>
    pointSeries(
      found,
      side,
      SHAPES[at] ?? 'circle',
      colours.series[at % colours.series.length] ?? colours.accent,
      colours,
    ),
  )
  return {
    grid: { left: 70, right: 20, top: 40, bottom: 50 },
    legend: {
      top: 0,
      itemWidth: 12,
      itemHeight: 12,
      textStyle: { color: colours.ink },
      data: sides.map((side) => side.name),
    },
    tooltip: { trigger: 'item', formatter: ({ data }: { data?: { says?: string } }) => data?.says ?? '' },
    xAxis: axis(
      found.x,
      30,
      isLog(
        found.points.flatMap((one) => [one.x, one.x_interval?.low ?? one.x]),
        scale,
      ),
    ),
    yAxis: axis(
      found.y,
      50,
      isLog(
        found.points.flatMap((one) => [one.y, one.y_interval?.low ?? one.y]),
        scale,
      ),
      per,
    ),
    series: [whiskers(found.points, colours), frontLine(found, colours), ...series],
  }
}

function pointSeries(
  found: Frontier,
  side: { key: string; name: string },
  symbol: string,
  colour: string,
  colours: Colours,
) {
  return {
    name: side.name,
    type: 'scatter',
    symbol,
    symbolSize: 10,
    z: 5,
    itemStyle: { color: colour },
    data: found.points
      .filter((point) => point.side === side.key)
      .map((point) => ({
        value: [point.x, point.y],
        job: point.job,
        says: [
          `${point.label || point.benchmark} on ${point.machine}`,
          `${found.x.metric}: ${valueWords(point.x, point.x_interval, found.x.unit)}`,
          `${found.y.metric}: ${valueWords(point.y, point.y_interval, found.y.unit)}`,
          standing(point),
          ...(point.grade ? [point.grade] : []),
          ...(point.verdict ? [point.verdict] : []),
        ].join('\n'),
        itemStyle: {
          color: point.on_front ? colour : colours.surface,
          borderColor: colour,
          borderWidth: 2,
          borderType: point.on_front && !point.surely ? 'dashed' : 'solid',
        },
      })),
  }
}

function frontLine(found: Frontier, colours: Colours) {
  return {
    name: 'front',
    type: 'line',
    silent: true,
    symbol: 'none',
    z: 3,
    // The best that each x allows: the best of the points up to it. No straight line: nothing was measured between.
    step: found.x.better === 'lower' ? 'end' : found.x.better === 'higher' ? 'start' : false,
    lineStyle: { color: colours.muted, type: 'dashed', width: 1.5 },
    data: frontOf(found).map((point) => [point.x, point.y]),
  }
}

function whiskers(points: FrontPoint[], colours: Colours) {
  const data = points.map((point) => [
    point.x,
    point.y,
    point.x_interval?.low ?? point.x,
    point.x_interval?.high ?? point.x,
    point.y_interval?.low ?? point.y,
    point.y_interval?.high ?? point.y,
  ])
  return {
    name: 'intervals',
    type: 'custom',
    silent: true,
    z: 4,
    data,
    encode: { x: [0, 2, 3], y: [1, 4, 5] },
    renderItem: drawWhiskers(colours.muted),
  }
}

const drawWhiskers = (stroke: string) => (_: unknown, api: Drawing) => {
  const [x, y, left, right, low, high] = [0, 1, 2, 3, 4, 5].map((at) => api.value(at))
  const line = (from: number[], to: number[]) => ({
    type: 'line',
    shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] },
    style: { stroke, lineWidth: 1.2 },
  })
  const at = (one: number | undefined, other: number | undefined) => api.coord([one ?? 0, other ?? 0])
  const end = ([px = 0, py = 0]: number[], [dx, dy]: [number, number]) => line([px - dx, py - dy], [px + dx, py + dy])
  const across: [number, number] = [WHISKER_END_PX, 0]
  const upright: [number, number] = [0, WHISKER_END_PX]
  return {
    type: 'group',
    children: [
      line(at(left, y), at(right, y)),
      end(at(left, y), upright),
      end(at(right, y), upright),
      line(at(x, low), at(x, high)),
      end(at(x, low), across),
      end(at(x, high), across),
    ],
  }
}
