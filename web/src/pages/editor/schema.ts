/** What the JSON Schema of the benchmark file says about a place in it. */
import { isPlain, type Path, type Plain, valueAt } from './document'

export interface Key {
  name: string
  says: string
  type: string
  /** Whether what comes below it is a section of its own. */
  isSection: boolean
}

/** The keys that may stand at a path and are not there yet. */
export function keysAt(schema: Plain, path: Path, plain: unknown): Key[] {
  if (path[0] === 'matrix') return path.length === 1 ? dottedKeys(schema, plain) : []
  const present = valueAt(plain, path)
  const taken = isPlain(present) ? Object.keys(present) : []
  const keys = new Map<string, Key>()
  for (const one of schemasAt(schema, path, plain))
    for (const [name, about] of Object.entries(propertiesOf(one)))
      if (!taken.includes(name) && !keys.has(name)) keys.set(name, keyOf(schema, name, about))
  return [...keys.values()]
}

/** The values that a place may have, where they can be listed. */
export function valuesAt(schema: Plain, path: Path, plain: unknown): string[] {
  const [first, dotted, ...below] = path
  if (first === 'matrix' && typeof dotted === 'string')
    return below.length === 1 ? valuesAt(schema, dotted.split('.'), plain) : []
  const found = schemasAt(schema, path, plain).flatMap((one) => {
    if (one.const !== undefined) return [one.const]
    if (Array.isArray(one.enum)) return one.enum
    if (one.type === 'boolean') return [true, false]
    return Array.isArray(one.examples) ? one.examples : []
  })
  return [...new Set(found.filter((one) => one !== null && typeof one !== 'object').map(String))]
}

/** Every schema that may describe what is at a path, references followed. */
export function schemasAt(schema: Plain, path: Path, plain: unknown): Plain[] {
  let found = narrowed(expanded(schema, schema), plain)
  for (let length = 1; length <= path.length; length += 1) {
    const key = path[length - 1]
    const below = found.flatMap((one) => below_(schema, one, key))
    found = narrowed(below, valueAt(plain, path.slice(0, length)))
  }
  return found
}

// Of several forms of a section, those that know every key which is there already.
function narrowed(schemas: Plain[], value: unknown): Plain[] {
  if (!isPlain(value)) return schemas
  const fitting = schemas.filter((one) =>
    Object.keys(value).every((key) => key in propertiesOf(one) || isPlain(one.additionalProperties)),
  )
  return fitting.length > 0 ? fitting : schemas
}

function below_(schema: Plain, one: Plain, key: string | number | undefined): Plain[] {
  if (key === undefined) return []
  if (typeof key === 'number') return isPlain(one.items) ? expanded(schema, one.items) : []
  const own = propertiesOf(one)[key]
  if (own !== undefined) return expanded(schema, own)
  return isPlain(one.additionalProperties) ? expanded(schema, one.additionalProperties) : []
}

function propertiesOf(one: Plain): Record<string, Plain> {
  if (!isPlain(one.properties)) return {}
  return Object.fromEntries(
    Object.entries(one.properties).flatMap(([name, about]) => (isPlain(about) ? [[name, about]] : [])),
  )
}

function expanded(schema: Plain, one: Plain): Plain[] {
  if (typeof one.$ref === 'string') {
    const found = valueAt(schema, one.$ref.replace(/^#\//, '').split('/'))
    return isPlain(found) ? expanded(schema, found) : []
  }
  for (const word of ['anyOf', 'oneOf', 'allOf']) {
    const forms = one[word]
    if (Array.isArray(forms)) return forms.filter(isPlain).flatMap((form) => expanded(schema, form))
  }
  return [one]
}

function keyOf(schema: Plain, name: string, about: Plain): Key {
  const forms = expanded(schema, about)
  const types = [...new Set(forms.map(typeOf))].filter((type) => type !== 'null' && type !== '')
  const says = typeof about.description === 'string' ? about.description : textOf(forms[0]?.description)
  const isSection = types.length > 0 && types.every((type) => type === 'section')
  return { name, says, type: types.join(' or '), isSection }
}

function typeOf(one: Plain): string {
  if (one.const !== undefined || Array.isArray(one.enum)) return 'choice'
  if (one.type === 'object') return 'section'
  if (one.type === 'array') return 'list'
  return textOf(one.type)
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : '')

// What a matrix may vary: every plain key of these sections.
const VARIED = ['target', 'workload', 'load', 'measure', 'needs']

function dottedKeys(schema: Plain, plain: unknown): Key[] {
  const taken = valueAt(plain, ['matrix'])
  return VARIED.flatMap((section) => {
    const known = new Map<string, Key>()
    for (const one of schemasAt(schema, [section], plain))
      for (const [name, about] of Object.entries(propertiesOf(one)))
        known.set(name, keyOf(schema, `${section}.${name}`, about))
    return [...known.values()].filter((key) => !key.isSection && !(isPlain(taken) && key.name in taken))
  })
}
