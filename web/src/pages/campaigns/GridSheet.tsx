import type { Api } from '@/api/client'
import { type Axis, EACH, NONE, type Sheet, shortValues } from '@/pages/campaigns/grid'
import { JobCell } from '@/pages/campaigns/JobCell'
import type { Scale } from '@/pages/campaigns/Whisker'

interface SheetProps {
  sheet: Sheet<Api<'JobSummary'>>
  axes: Axis[]
  rows: string
  columns: string
  results: Map<string, Api<'ResultView'>>
  metric: string
  scale: Scale | null
}

// From here on cells are small, so that more of the grid is in sight.
const ROOMY = 48
const ROOMY_COLUMNS = 6

/** One table of the grid. */
export function GridSheet({ sheet, axes, rows, columns, results, metric, scale }: SheetProps) {
  const name = (path: string) => axes.find((axis) => axis.path === path)?.name ?? (path === EACH ? 'job' : '')
  const [rowNames, columnNames] = [shortValues(sheet.rows), shortValues(sheet.columns)]
  const says = [`Jobs by ${[name(rows), name(columns)].filter(Boolean).join(' and ')}`, sheet.title]
    .filter(Boolean)
    .join(', ')
  const isDense = sheet.rows.length * sheet.columns.length > ROOMY || sheet.columns.length > ROOMY_COLUMNS
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached with the keyboard
    <section className="grid-scroll" tabIndex={0} aria-label={says}>
      <table className={isDense ? 'job-grid dense' : 'job-grid'}>
        <caption>{sheet.title || <span className="unseen">{says}</span>}</caption>
        <thead>
          <tr>
            <th scope="col">{name(rows)}</th>
            {sheet.columns.map((column) => (
              <th key={column} scope="col" title={column}>
                {columns === NONE ? 'result' : <Value of={name(columns)} value={columnNames.get(column)} />}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sheet.rows.map((row) => (
            <tr key={row}>
              <th scope="row" title={row}>
                {rowNames.get(row)}
              </th>
              {sheet.columns.map((column) => (
                <Place key={column} jobs={sheet.at(row, column)} results={results} metric={metric} scale={scale} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

function Value({ of, value }: { of: string; value: string | undefined }) {
  return (
    <>
      <span className="quiet">{of} </span>
      {value}
    </>
  )
}

type PlaceProps = { jobs: Api<'JobSummary'>[] } & Pick<SheetProps, 'results' | 'metric' | 'scale'>

/** The jobs of one row and column; mostly one. */
function Place({ jobs, results, metric, scale }: PlaceProps) {
  return (
    <td>
      {jobs.length === 0 && <span className="quiet">no job</span>}
      {jobs.map((job) => (
        <JobCell
          key={job.id}
          job={job}
          result={results.get(job.id)}
          metric={metric}
          scale={scale}
          named={jobs.length > 1}
        />
      ))}
    </td>
  )
}
