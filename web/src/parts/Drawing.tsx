import { useEffect, useRef, useState } from 'react'
import { colours } from '@/charts/colours'
import { SaveAs } from '@/charts/SaveAs'
import { type Rows, save } from '@/charts/saving'
import { cleanDrawing } from '@/parts/drawing/clean'
import { pictureOf, pngAddress, svgAddress } from '@/parts/drawing/picture'
import { Table } from '@/parts/Table'
import { useTell } from '@/parts/Toasts'
import '@/parts/drawing/drawing.css'
// The very style sheet of the HTML report: a picture looks the same in both.
import sheet from '../../../src/assay/report/html/chart.css?raw'

interface DrawingProps extends Rows {
  title: string
  /** How to read it, in a sentence or two; empty where another drawing says it. */
  says: string
  /** The text of one <svg> element. */
  svg: string
}

/** A picture that the server drew, with its numbers to read or to take away. */
export function Drawing({ title, says, svg, columns, rows }: DrawingProps) {
  const host = useRef<HTMLDivElement>(null)
  const [broken, setBroken] = useState(false)
  useEffect(() => {
    if (host.current !== null) setBroken(!put(host.current, svg))
  }, [svg])
  return (
    <figure className="drawing">
      <h3>{title}</h3>
      {broken && <p className="quiet">The picture that came from the server cannot be read; its numbers are below.</p>}
      <div ref={host} className="drawing-host" />
      {says && <figcaption>{says}</figcaption>}
      <Take
        title={title}
        rows={{ columns, rows }}
        drawn={() => host.current?.shadowRoot?.querySelector('svg') ?? null}
      />
    </figure>
  )
}

/** Put a drawing into a shadow tree: there the report's styles and the dashboard's do not affect each other. */
function put(host: HTMLDivElement, svg: string): boolean {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' })
  const drawn = cleanDrawing(svg)
  root.replaceChildren(...(drawn ? [drawn] : []))
  const styles = sharedStyles()
  if (styles !== null) root.adoptedStyleSheets = [styles]
  return drawn !== null
}

let shared: CSSStyleSheet | null = null

/** The style sheet of all drawings, made once; null where the browser knows none that are made by a script. */
function sharedStyles(): CSSStyleSheet | null {
  if (shared === null && 'adoptedStyleSheets' in Document.prototype) {
    shared = new CSSStyleSheet()
    shared.replaceSync(sheet)
  }
  return shared
}

function Take({ title, rows, drawn }: { title: string; rows: Rows; drawn: () => SVGSVGElement | null }) {
  const tell = useTell()
  const [open, setOpen] = useState(false)
  const picture = async (type: 'png' | 'svg') => {
    const from = drawn()
    if (from === null) return
    const made = pictureOf(from, colours().surface)
    try {
      save(title, type, type === 'svg' ? svgAddress(made) : await pngAddress(made))
    } catch (problem) {
      tell('The picture could not be made', problem)
    }
  }
  return (
    <>
      <div className="chart-tools">
        <button type="button" className="button plain" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? 'Hide the numbers' : 'Show the numbers'}
          <span className="unseen"> of {title}</span>
        </button>
        <SaveAs title={title} rows={rows} onPicture={(type) => void picture(type)} />
      </div>
      {open && <Numbers title={title} rows={rows} />}
    </>
  )
}

type Line = Rows['rows'][number]

function Numbers({ title, rows }: { title: string; rows: Rows }) {
  const columns = rows.columns.map((name, at) => ({
    id: `${at}`,
    header: name,
    accessorFn: (row: Line) => row[at] ?? '–',
  }))
  const places = new Map(rows.rows.map((row, at) => [row, String(at)]))
  return (
    <Table label={`Numbers of ${title}`} rows={rows.rows} columns={columns} keyOf={(row) => places.get(row) ?? ''} />
  )
}
