import { type Rows, save, toCsv } from '@/charts/saving'

interface SaveAsProps {
  /** What is saved; names the files. */
  title: string
  rows: Rows
  onPicture: (type: 'png' | 'svg') => void
}

/** The three ways to take a picture away. */
export function SaveAs({ title, rows, onPicture }: SaveAsProps) {
  const ways = [
    ['PNG', () => onPicture('png')],
    ['SVG', () => onPicture('svg')],
    ['CSV', () => save(title, 'csv', toCsv(rows))],
  ] as const
  return ways.map(([name, act]) => (
    <button key={name} type="button" className="button plain" onClick={act} aria-label={`Save ${title} as ${name}`}>
      {name}
    </button>
  ))
}
