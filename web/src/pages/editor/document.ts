/** The file as a document that a form can read and change; comments and order stay as they were written. */
import { type Document, isMap, isScalar, isSeq, parseDocument, stringify } from 'yaml'

export type Path = readonly (string | number)[]
/** What a file holds, as plain values. */
export type Plain = Record<string, unknown>

const WRITTEN = { lineWidth: 0, flowCollectionPadding: false } as const

/** Whether a value is a mapping. */
export function isPlain(value: unknown): value is Plain {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** What the text holds; null where it is no mapping yet, or cannot be read. */
export function plainOf(text: string): Plain | null {
  const document = parsed(text)
  if (document === null) return null
  try {
    const plain: unknown = document.toJS()
    return isPlain(plain) ? plain : {}
  } catch {
    return null // anchors that multiply without end
  }
}

/** The value at a path; undefined where there is none. */
export function valueAt(plain: unknown, path: Path): unknown {
  let here = plain
  for (const key of path) {
    if (Array.isArray(here) && typeof key === 'number') here = here[key]
    else if (isPlain(here)) here = here[key]
    else return undefined
  }
  return here
}

/** The text with a value at a path; `undefined` takes it away. A text that cannot be read stays as it is. */
export function withValue(text: string, path: Path, value: unknown): string {
  const document = parsed(text)
  if (document === null) return text
  const spliced = withScalar(text, document, path, value)
  if (spliced !== null) return spliced
  if (value === undefined) remove(document, path)
  else set(document, path, value)
  return document.toString(WRITTEN)
}

// One plain value in place of another: nothing else of the text moves, not even a space.
function withScalar(text: string, document: Document, path: Path, value: unknown): string | null {
  const node = document.getIn(path, true)
  if (!isScalar(node) || !node.range || typeof value === 'object' || value === undefined) return null
  const next = text.slice(0, node.range[0]) + stringify(value, WRITTEN).trimEnd() + text.slice(node.range[1])
  return valueAt(plainOf(next), path) === value ? next : null
}

/** A document as a new file, for one that was kept without its text. */
export function writtenOf(plain: Plain): string {
  return stringify(plain, WRITTEN)
}

function parsed(text: string): Document.Parsed | null {
  const document = parseDocument(text)
  const readable = document.errors.length === 0 && (document.contents === null || isMap(document.contents))
  return readable ? document : null
}

function set(document: Document, path: Path, value: unknown): void {
  for (let length = 1; length < path.length; length += 1) {
    const above = document.getIn(path.slice(0, length), true)
    // A value stands where a section is needed: it goes.
    if (above !== undefined && !isMap(above) && !isSeq(above)) document.deleteIn(path.slice(0, length))
  }
  document.setIn(path, Array.isArray(value) ? document.createNode(value, { flow: true }) : value)
}

function remove(document: Document, path: Path): void {
  if (!document.hasIn(path)) return
  document.deleteIn(path)
  const above = path.slice(0, -1)
  const left: unknown = above.length > 0 ? document.getIn(above, true) : undefined
  // An empty section says nothing.
  if ((isMap(left) || isSeq(left)) && left.items.length === 0) remove(document, above)
}
