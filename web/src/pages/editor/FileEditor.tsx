import { setDiagnostics } from '@codemirror/lint'
import { Compartment, EditorState } from '@codemirror/state'
import { EditorView } from '@codemirror/view'
import { useEffect, useRef } from 'react'
import { useTheme } from '@/app/theme'
import { abilities, changeTo, marksOf } from './codemirror'
import { completing } from './completing'
import type { Plain } from './document'
import type { Problem } from './reading'

export interface FileEditorProps {
  text: string
  onText: (text: string) => void
  problems: readonly Problem[]
  /** Completion begins when it is there. */
  schema: Plain | undefined
  /** A line to go to; each new object goes there once more. */
  goTo?: { line: number } | null
}

/** The benchmark file, with what is wrong marked in it. */
export default function FileEditor({ text, onText, problems, schema, goTo }: FileEditorProps) {
  const box = useRef<HTMLDivElement>(null)
  const made = useRef<EditorView | null>(null)
  const now = useRef({ onText, schema, text })
  now.current = { onText, schema, text }
  const dark = useTheme().shown === 'dark'
  const theme = useRef(new Compartment())

  useEffect(() => {
    if (box.current === null) return
    const extensions = abilities(
      'Benchmark file',
      completing(() => now.current.schema),
      (next) => now.current.onText(next),
    )
    const state = EditorState.create({ doc: now.current.text, extensions: [extensions, theme.current.of([])] })
    const view = new EditorView({ state, parent: box.current })
    made.current = view
    return () => {
      made.current = null
      view.destroy()
    }
  }, [])

  useEffect(() => {
    made.current?.dispatch({ effects: theme.current.reconfigure(EditorView.darkTheme.of(dark)) })
  }, [dark])

  useEffect(() => {
    const view = made.current
    const changes = view && changeTo(view.state.doc.toString(), text)
    if (changes) view.dispatch({ changes })
  }, [text])

  useEffect(() => {
    const view = made.current
    view?.dispatch(setDiagnostics(view.state, marksOf(problems, view.state.doc)))
  }, [problems])

  useEffect(() => {
    const view = made.current
    if (!goTo || !view || goTo.line > view.state.doc.lines) return
    view.dispatch({ selection: { anchor: view.state.doc.line(goTo.line).from }, scrollIntoView: true })
    view.focus()
  }, [goTo])

  return <div ref={box} className="file-editor" />
}
