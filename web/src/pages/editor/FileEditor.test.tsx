import { EditorState, Text } from '@codemirror/state'
import { render, screen } from '@testing-library/react'
import { describe, expect, it, vi } from 'vitest'
import { changeTo, marksOf } from './codemirror'
import FileEditor from './FileEditor'

const problem = (line: number | null, column: number | null = null) => ({
  message: 'wrong',
  code: 'value',
  line,
  column,
  path: '',
  try: 'another',
})

it('shows the text in a field with a name', () => {
  render(<FileEditor text={'benchmark: <img src=x>\n'} onText={() => undefined} problems={[]} schema={undefined} />)
  expect(screen.getByRole('textbox', { name: 'Benchmark file' }).textContent).toContain('<img src=x>')
  expect(document.querySelector('img')).toBeNull()
})

it('takes a text that was changed elsewhere', () => {
  const changed = vi.fn()
  const shown = (text: string) => <FileEditor text={text} onText={changed} problems={[]} schema={undefined} />
  const drawn = render(shown('a: 1\n'))
  drawn.rerender(shown('a: 1\nb: 2\n'))
  expect(screen.getByRole('textbox').textContent).toContain('b: 2')
})

describe('marksOf', () => {
  const text = Text.of(['a: 1', '  b: 2'])
  it('marks a problem from its key to the end of its line', () => {
    expect(marksOf([problem(2, 3)], text)).toMatchObject([{ from: 7, to: 11, message: 'wrong. Try: another' }])
  })
  it('leaves out what has no line in this text', () => {
    expect(marksOf([problem(null), problem(9)], text)).toEqual([])
  })
})

it('changes no more than what differs', () => {
  const [before, after] = ['a: 1\nb: 2\nc: 3', 'a: 1\nb: 25\nc: 3']
  const changes = changeTo(before, after)
  expect(changes).toEqual({ from: 9, to: 9, insert: '5' })
  expect(
    EditorState.create({ doc: before })
      .update({ changes: changes ?? [] })
      .state.doc.toString(),
  ).toBe(after)
  expect(changeTo(before, before)).toBeNull()
})
