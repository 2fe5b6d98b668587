/** CodeMirror as this page uses it: YAML, its problems, completion, and colours from the page's own tokens. */
import {
  autocompletion,
  type CompletionSource,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language'
import { type Diagnostic, lintGutter, lintKeymap } from '@codemirror/lint'
import type { Extension, Text } from '@codemirror/state'
import { EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { nonce } from '@/app/base'
import type { Problem } from './reading'

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--accent)' },
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [tags.string, tags.content], color: 'var(--ink)' },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: 'var(--muted)' },
])

const look = EditorView.theme({
  '&': {
    backgroundColor: 'var(--bg)',
    color: 'var(--ink)',
    border: '1px solid var(--line)',
    borderRadius: 'var(--radius-small)',
    fontSize: '0.9rem',
  },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '1px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55', minHeight: '22rem', maxHeight: '70vh' },
  '.cm-content': { caretColor: 'var(--ink)' },
  '.cm-gutters': { backgroundColor: 'var(--bg)', color: 'var(--muted)', borderRight: '1px solid var(--grid)' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--shade)' },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--accent-soft)' },
  '.cm-tooltip': {
    backgroundColor: 'var(--raised)',
    color: 'var(--ink)',
    border: '1px solid var(--line)',
    borderRadius: 'var(--radius-small)',
    boxShadow: 'var(--shadow)',
    maxWidth: '26rem',
  },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--accent-ink)' },
  '.cm-completionDetail': { color: 'inherit', opacity: '0.85' },
  '.cm-diagnostic-error': { borderLeftColor: 'var(--bad)' },
  '.cm-lintPoint-error:after': { borderBottomColor: 'var(--bad)' },
})

/** Everything that the editor of a benchmark file can do. Tab leaves the field, as everywhere on the page. */
export function abilities(label: string, source: CompletionSource, onText: (text: string) => void): Extension[] {
  return [
    EditorView.cspNonce.of(nonce),
    lineNumbers(),
    highlightActiveLine(),
    highlightActiveLineGutter(),
    history(),
    indentOnInput(),
    bracketMatching(),
    closeBrackets(),
    lintGutter(),
    indentUnit.of('  '),
    yaml(),
    syntaxHighlighting(colours),
    look,
    autocompletion({ override: [source], icons: false }),
    keymap.of([...closeBracketsKeymap, ...completionKeymap, ...lintKeymap, ...historyKeymap, ...defaultKeymap]),
    EditorView.contentAttributes.of({ 'aria-label': label, spellcheck: 'false', tabindex: '0' }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) onText(update.state.doc.toString())
    }),
  ]
}

/** The problems of a file as marks in its text; one without a line is shown beside the editor only. */
export function marksOf(problems: readonly Problem[], text: Text): Diagnostic[] {
  return problems.flatMap((one): Diagnostic[] => {
    if (!one.line || one.line > text.lines) return []
    const line = text.line(one.line)
    const start =
      line.from +
      Math.min(Math.max((one.column ?? 1) - 1, line.text.length - line.text.trimStart().length), line.length)
    return [
      {
        from: start,
        to: Math.max(line.to, start),
        severity: 'error',
        message: [one.message, one.try && `Try: ${one.try}`].filter(Boolean).join('. '),
      },
    ]
  })
}

/** The smallest change that makes one text of another: the cursor stays where it was. */
export function changeTo(before: string, after: string): { from: number; to: number; insert: string } | null {
  if (before === after) return null
  const least = Math.min(before.length, after.length)
  let start = 0
  while (start < least && before[start] === after[start]) start += 1
  let end = 0
  while (end < least - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end += 1
  return { from: start, to: before.length - end, insert: after.slice(start, after.length - end) }
}
