import type { Api } from '@/api/client'
import { percent } from '@/parts/numbers'

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

export const ANSWERS = ['better', 'worse', 'cannot tell', 'not like for like'] as const
export type AnswerWord = (typeof ANSWERS)[number]

/** The answer of a cell in words: what must not be compared is another thing than what chance leaves open. */
export function wordOf(cell: Cell | undefined): AnswerWord | null {
  if (!cell || cell.answer === null || cell.answer === 'base') return null
  return cell.comparable === false ? 'not like for like' : cell.answer
}

/** What the rows that are shown say about one side: how often each answer. */
export function counted(rows: Row[], side: string): Record<AnswerWord, number> {
  const found = { better: 0, worse: 0, 'cannot tell': 0, 'not like for like': 0 }
  for (const row of rows) {
    const word = wordOf(row.cells.find((cell) => cell.side === side))
    if (word) found[word] += 1
  }
  return found
}

/** The answer in one sentence per metric: which side is better, by how much, and how much of it is open. */
export function sentencesOf(rows: Row[], side: Side): string[] {
  return [...new Set(rows.map((row) => row.metric))].flatMap((metric) => {
    const words = rows
      .filter((row) => row.metric === metric)
      .flatMap((row) => {
        const cell = row.cells.find((one) => one.side === side.key)
        const word = wordOf(cell)
        return word && cell ? [{ word, by: Math.abs(changeOf(row, cell) ?? 0) }] : []
      })
    const parts = ANSWERS.flatMap((word) => {
      const those = words.filter((one) => one.word === word)
      if (those.length === 0) return []
      const where = words.length === 1 ? '' : ` in ${those.length} of ${words.length} jobs`
      const isMove = word === 'better' || word === 'worse'
      return [`${isMove ? `${side.name} is ` : ''}${word}${where}${isMove ? byText(those.map((one) => one.by)) : ''}`]
    })
    return parts.length > 0 ? [`${metric}: ${parts.join(', ')}.`] : []
  })
}

export interface Reason {
  word: AnswerWord
  rows: number
  sentence: string
}

/** The reasons why cells have no verdict, those of most cells first. */
export function undecidedOf(rows: Row[]): Reason[] {
  const found = new Map<string, Reason>()
  for (const cell of rows.flatMap((row) => row.cells)) {
    const word = wordOf(cell)
    if (word !== 'cannot tell' && word !== 'not like for like') continue
    for (const sentence of cell.because) {
      const kind = `${word} ${sentence.replaceAll(/[-+±]?\d[\d,.]*/g, '#')}`
      const known = found.get(kind)
      if (known) known.rows += 1
      else found.set(kind, { word, rows: 1, sentence })
    }
  }
  return [...found.values()].sort((one, other) => other.rows - one.rows)
}

function byText(changes: number[]): string {
  const [low, high] = [percent(Math.min(...changes)), percent(Math.max(...changes))]
  return low === high ? ` by ${low}` : ` by ${low} to ${high}`
}

/** The relative change of a cell against the base of its row, by the medians; null where one is missing. */
export function changeOf(row: Row, cell: Cell): number | null {
  const base = row.cells.find((one) => one.answer === 'base')?.metric?.median
  const value = cell.metric?.median
  if (base === undefined || value === undefined || base === 0) return null
  return (value - base) / Math.abs(base)
}
