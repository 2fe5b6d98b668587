import type { Point } from '@/watching/types'
import { valueWords } from '@/watching/words'

/** What a change around a series may explain; the words are those of a finding's cause. */
export const KINDS = ['code', 'data or model', 'environment', 'machine', 'method', 'other'] as const
export type Kind = (typeof KINDS)[number]

const KIND_OF: Record<string, Kind> = {
  commit: 'code',
  changed: 'code',
  model: 'data or model',
  data: 'data or model',
  files: 'data or model',
  image: 'environment',
  server: 'environment',
  driver: 'environment',
  python: 'environment',
  kernel: 'environment',
  os: 'environment',
  governor: 'environment',
  machine: 'machine',
  host: 'machine',
  measure: 'method',
  objective: 'method',
  assay: 'method',
}
// Shown under other names, or for each point alone.
const APART = new Set(['control', 'throttled', 'doubts', 'definition', 'program', 'machine_id', 'spec', 'method'])

export interface Around {
  /** The first point with the new values. */
  point: Point
  kind: Kind
  /** `driver 550.54.15 → 560.35.03`. */
  says: string[]
}

/** What changed from one point of a series to the next, by kind. */
export function changesAround(points: readonly Point[]): Around[] {
  const last = new Map<string, unknown>()
  return points.flatMap((point) => {
    const found = new Map<Kind, string[]>()
    for (const [name, value] of flat(point.context ?? {})) {
      const before = last.get(name)
      if (last.has(name) && JSON.stringify(before) !== JSON.stringify(value)) {
        const kind = kindOf(name)
        found.set(kind, [...(found.get(kind) ?? []), `${name} ${valueWords(before)} → ${valueWords(value)}`])
      }
      last.set(name, value)
    }
    return [...found].map(([kind, says]) => ({ point, kind, says }))
  })
}

function kindOf(name: string): Kind {
  if (name.startsWith('package ') || name.startsWith('package.')) return 'environment'
  return KIND_OF[name.split('.')[0] ?? name] ?? 'other'
}

function flat(context: Record<string, unknown>): [string, unknown][] {
  const rows = Object.entries(context).flatMap(([name, value]): [string, unknown][] => {
    if (APART.has(name)) return []
    if (isTree(value)) return leaves(value, name === 'packages' ? 'package ' : `${name}.`)
    return [[name, value]]
  })
  return isTree(context.method) ? [...rows, ...leaves(context.method, '')] : rows
}

function leaves(tree: Record<string, unknown>, prefix: string): [string, unknown][] {
  return Object.entries(tree).flatMap(([name, value]): [string, unknown][] =>
    isTree(value) ? leaves(value, `${prefix}${name}.`) : [[`${prefix}${name}`, value]],
  )
}

function isTree(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
