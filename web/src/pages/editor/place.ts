/** Where in a YAML file the cursor is: which section, and whether a key or a value is being written. */

export interface Place {
  /** Keys and positions from the top to where something is written. */
  path: (string | number)[]
  kind: 'key' | 'value'
  /** What is written so far. */
  word: string
  /** Spaces before a key of this section. */
  indent: number
  /** Whether it is inside `{…}` or `[…]`. */
  isFlow: boolean
}

interface Step {
  indent: number
  key: string | number
}

const KEY = /^("[^"]*"|'[^']*'|[^\s"'{}[\],#&*!|>%@`-][^{}[\],#]*?)\s*:(?=\s|$)/
// An item of a list lies between its key and the keys inside the item.
const ITEM = 0.5

/** The place at an offset of a text; null inside comments and block texts. */
export function placeAt(text: string, offset: number): Place | null {
  const lines = text.slice(0, offset).split('\n')
  const last = lines.pop() ?? ''
  const steps: Step[] = []
  let deeper = -1 // lines indented more than this belong to a block text
  for (const line of lines) {
    const indent = indentOf(line)
    if (line.trim() === '' || line.trimStart().startsWith('#') || (deeper >= 0 && indent > deeper)) continue
    deeper = -1
    const { rest, at } = descend(steps, line)
    const found = KEY.exec(rest)
    if (found?.[1] === undefined) continue
    enter(steps, at, unquoted(found[1]))
    if (/^[|>][-+0-9]*\s*(#.*)?$/.test(rest.slice(found[0].length).trim())) deeper = at
  }
  if (deeper >= 0 && (last.trim() === '' || indentOf(last) > deeper)) return null
  return isComment(last) ? null : here(steps, last)
}

function here(steps: Step[], line: string): Place {
  const { rest, at } = descend(steps, line)
  const found = KEY.exec(rest)
  const written = found ? rest.slice(found[0].length) : rest
  if (found?.[1] === undefined) leave(steps, at)
  else enter(steps, at, unquoted(found[1]))
  const path = steps.map((step) => step.key)
  const flow = inFlow(written.trimStart())
  if (flow !== null)
    return { path: [...path, ...flow.path], kind: flow.kind, word: flow.word, indent: at, isFlow: true }
  return { path, kind: found ? 'value' : 'key', word: written.trimStart(), indent: at, isFlow: false }
}

/** Go to the section that a line belongs to; what is left of the line, and where that begins. */
function descend(steps: Step[], line: string): { rest: string; at: number } {
  let at = indentOf(line)
  let rest = line.slice(at)
  for (let item = /^-(\s+|$)/.exec(rest); item !== null; item = /^-(\s+|$)/.exec(rest)) {
    while ((steps.at(-1)?.indent ?? -1) > at + ITEM) steps.pop()
    const before = steps.at(-1)
    if (before?.indent === at + ITEM) before.key = Number(before.key) + 1
    else steps.push({ indent: at + ITEM, key: 0 })
    at += item[0].length
    rest = rest.slice(item[0].length)
  }
  return { rest, at }
}

function leave(steps: Step[], at: number): void {
  while ((steps.at(-1)?.indent ?? -1) >= at) steps.pop()
}

function enter(steps: Step[], at: number, key: string): void {
  leave(steps, at)
  steps.push({ indent: at, key })
}

interface Flow {
  path: (string | number)[]
  kind: 'key' | 'value'
  word: string
}

/** The place inside `{…}` or `[…]` that is still open at the end of a text; null where none is. */
export function inFlow(text: string): Flow | null {
  const open: { list: boolean; key: string | number | null }[] = []
  let word = ''
  let quote = ''
  for (const letter of text) {
    const top = open.at(-1)
    if (quote) {
      quote = letter === quote ? '' : quote
      word += letter
    } else if (letter === '"' || letter === "'") {
      quote = letter
      word += letter
    } else if (letter === '{' || letter === '[') {
      open.push({ list: letter === '[', key: letter === '[' ? 0 : null })
      word = ''
    } else if (letter === '}' || letter === ']') {
      open.pop()
      word = ''
    } else if (top && letter === ',') {
      top.key = top.list ? Number(top.key) + 1 : null
      word = ''
    } else if (top && !top.list && top.key === null && letter === ':') {
      top.key = unquoted(word.trim())
      word = ''
    } else word += letter
  }
  if (open.length === 0) return null
  const isKey = open.at(-1)?.key === null
  return { path: open.flatMap((one) => one.key ?? []), kind: isKey ? 'key' : 'value', word: word.trimStart() }
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length
}

function isComment(line: string): boolean {
  return /(^|\s)#/.test(line.replace(/"[^"]*"|'[^']*'/g, ''))
}

function unquoted(key: string): string {
  return /^(".*"|'.*')$/.test(key) ? key.slice(1, -1) : key
}
