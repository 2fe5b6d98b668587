/** What can be written next, as the editor offers it. */
import type { Completion, CompletionContext, CompletionResult } from '@codemirror/autocomplete'
import { parseDocument } from 'yaml'
import type { Plain } from './document'
import { placeAt } from './place'
import { type Key, keysAt, valuesAt } from './schema'

/** Offers for an offset of a text; null where there is nothing to offer. `isAsked`: by the user, not by typing. */
export function offers(schema: Plain, text: string, offset: number, isAsked: boolean): CompletionResult | null {
  const place = placeAt(text, offset)
  if (place === null || (place.word === '' && !isAsked)) return null
  const plain = roughly(text)
  const options =
    place.kind === 'key'
      ? keysAt(schema, place.path, plain).map((key) => keyOffer(key, place.isFlow ? null : place.indent))
      : valuesAt(schema, place.path, plain).map((value): Completion => ({ label: value, type: 'constant' }))
  return options.length === 0 ? null : { from: offset - place.word.length, options, validFor: /^[\w.-]*$/ }
}

/** The same as a source of CodeMirror's; the schema may come later. */
export function completing(schema: () => Plain | undefined) {
  return (context: CompletionContext): CompletionResult | null => {
    const known = schema()
    return known ? offers(known, context.state.doc.toString(), context.pos, context.explicit) : null
  }
}

// A section begins on the next line, unless the file has braces there.
function keyOffer(key: Key, indent: number | null): Completion {
  const apply = key.isSection && indent !== null ? `${key.name}:\n${' '.repeat(indent + 2)}` : `${key.name}: `
  return { label: key.name, type: 'property', detail: key.type, apply, ...(key.says ? { info: key.says } : {}) }
}

// What can be understood of a file that is being written.
function roughly(text: string): unknown {
  try {
    return parseDocument(text).toJS()
  } catch {
    return {}
  }
}
