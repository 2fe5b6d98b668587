/** Nested facts, such as an environment, as flat lines. */
export interface Fact {
  path: string
  value: string
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** What lies at a key of something that may be a record; undefined where it is none. */
export function at(value: unknown, ...path: string[]): unknown {
  return path.reduce<unknown>((found, key) => (isRecord(found) ? found[key] : undefined), value)
}

/** Facts by their dotted path, in order; what is empty is left out. */
export function flat(facts: unknown, prefix = ''): Fact[] {
  if (!isRecord(facts)) return []
  return Object.entries(facts).flatMap(([key, value]) => {
    const path = `${prefix}${key}`
    if (isRecord(value)) return flat(value, `${path}.`)
    const isEmpty =
      value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0)
    return isEmpty ? [] : [{ path, value: factText(path, value) }]
  })
}

/** One fact as text; a number of bytes also says how much that is. */
export function factText(path: string, value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' && path.endsWith('_bytes') && value >= 1024)
    return `${bytes(value)} (${value.toLocaleString('en-US')} B)`
  if (Array.isArray(value) && value.every((one) => typeof one !== 'object')) return value.join(', ')
  return JSON.stringify(value)
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

/** A size in the unit that suits it. */
export function bytes(size: number): string {
  const power = size < 1 ? 0 : Math.min(Math.floor(Math.log2(size) / 10), UNITS.length - 1)
  const shown = size / 1024 ** power
  return `${power === 0 ? shown : shown.toFixed(shown < 10 ? 1 : 0)} ${UNITS[power]}`
}
