import type { Colours } from '@/charts/colours'
import type { Drawing } from '@/pages/series/dots'
import { endOf, type Trend, turnWords, x } from '@/pages/series/trend'
import type { KnownFinding } from '@/watching/types'

type Corner = [number, number]
const SIGN_DOWN: Corner[] = [
  [-6, -5],
  [6, -5],
  [0, 6],
]
const SIGN_UP: Corner[] = [
  [-6, 5],
  [6, 5],
  [0, -6],
]
const SIGN_UNREPORTED: Corner[] = [
  [0, -6],
  [6, 0],
  [0, 6],
  [-6, 0],
]
const SIGNS: Record<string, Corner[]> = { worse: SIGN_DOWN, better: SIGN_UP }

interface Place {
  dataIndex: number
  coordSys: { y: number; height: number }
}

/** Each change: an upright line between the last good and the first bad result, a sign for its direction, its number. */
export function turns(trend: Trend, colours: Colours): object {
  return {
    type: 'custom',
    name: 'changes',
    z: 5,
    clip: false,
    tooltip: { formatter: (one: { data: { says: string } }) => one.data.says },
    data: trend.turns.map((turn) => {
      const [good, bad] = [x(trend, turn.last_good.at), x(trend, turn.first_bad.at)]
      return {
        value: [(good + bad) / 2, trend.high, good, x(trend, endOf(turn, trend.points))],
        says: `change ${trend.numbers.get(turn.id) ?? ''}, ${turnWords(turn)}`,
        key: `finding:${turn.id}`,
      }
    }),
    renderItem: ({ dataIndex, coordSys }: Place, api: Drawing) => {
      const turn = trend.turns[dataIndex]
      if (turn === undefined) return null
      const [at, left, right] = [0, 2, 3].map((one) => api.coord([api.value(one), trend.high])[0])
      const number = String(trend.numbers.get(turn.id) ?? '')
      return drawn(turn, number, { at: at ?? 0, left: left ?? 0, right: right ?? 0, ...coordSys }, colours)
    },
  }
}

interface Box {
  at: number
  left: number
  right: number
  y: number
  height: number
}

function drawn(turn: KnownFinding, number: string, { at, left, right, y, height }: Box, colours: Colours): object {
  const colour = { worse: colours.bad, better: colours.good, 'cannot tell': colours.unknown }[turn.finding.answer]
  const isOpen = turn.state === 'open'
  const points = (SIGNS[turn.finding.answer] ?? SIGN_UNREPORTED).map(([dx, dy]) => [at + dx, y + 8 + dy])
  const dash = isOpen ? undefined : [4, 3]
  const shape = { x: left, y, width: Math.max(1, right - left), height }
  const text = { text: number, fill: colours.ink, font: '600 12px system-ui, sans-serif' }
  return {
    type: 'group',
    children: [
      // Silent: the dots below must be reached.
      { type: 'rect', silent: true, shape, style: { fill: colours.band } },
      {
        type: 'line',
        silent: true,
        shape: { x1: at, y1: y + 8, x2: at, y2: y + height },
        style: { stroke: colour, lineWidth: 1.5, lineDash: dash },
      },
      {
        type: 'polygon',
        shape: { points },
        style: { fill: isOpen ? colour : colours.surface, stroke: colour, lineWidth: 1.5 },
      },
      { type: 'text', x: at + 10, y: y + 2, style: text },
    ],
  }
}
