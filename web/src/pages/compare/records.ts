import type { Api } from '@/api/client'

export type Comparison = Api<'Comparison'>
export type Side = Comparison['sides'][number]
export type Row = Comparison['rows'][number]
export type Cell = Row['cells'][number]
export type Frontier = Api<'Frontier'>
export type FrontPoint = Frontier['points'][number]

/** How many sides fit beside each other: as many as the server compares. */
export const MOST_SIDES = 8

export const KINDS = ['campaign', 'job', 'agent', 'label'] as const
export type Kind = (typeof KINDS)[number]

/** `campaign:c5d0` in its two parts; null where it is no side. */
export function partsOf(side: string): { kind: Kind; name: string } | null {
  const at = side.indexOf(':')
  const kind = KINDS.find((one) => one === side.slice(0, at))
  const name = side.slice(at + 1)
  return kind && name ? { kind, name } : null
}

const LETTERS = 'ABCDEFGH'

/** The letter by which a side is called on this page; A is the base. */
export function letterOf(at: number): string {
  return LETTERS[at] ?? '?'
}

/** Sides with names that tell them apart: a letter, and what was chosen where two names are the same. */
export function titled(sides: Side[]): Side[] {
  return sides.map((side, at) => {
    const isTaken = sides.some((other) => other !== side && other.name === side.name)
    const own = isTaken ? ` ${partsOf(side.key)?.name ?? side.key}` : ''
    return { ...side, name: `${letterOf(at)}: ${side.name}${own}` }
  })
}

/** What the rows that are shown say about one side: how often better, worse, cannot tell. */
export function counted(rows: Row[], side: string): Record<'better' | 'worse' | 'cannot tell', number> {
  const found = { better: 0, worse: 0, 'cannot tell': 0 }
  for (const row of rows) {
    const answer = row.cells.find((cell) => cell.side === side)?.answer
    if (answer === 'better' || answer === 'worse' || answer === 'cannot tell') found[answer] += 1
  }
  return found
}

/** The relative change of a cell against the base of its row, by the medians; null where one is missing. */
export function changeOf(row: Row, cell: Cell): number | null {
  const base = row.cells.find((one) => one.answer === 'base')?.metric?.median
  const value = cell.metric?.median
  if (base === undefined || value === undefined || base === 0) return null
  return (value - base) / Math.abs(base)
}
