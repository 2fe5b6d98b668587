import { Link } from '@tanstack/react-router'
import type { ColumnDef } from '@tanstack/react-table'
import { useMemo } from 'react'
import type { Api } from '@/api/client'
import { Card } from '@/parts/Card'
import { State, Verdict } from '@/parts/Mark'
import { Table } from '@/parts/Table'

type Written = Api<'WrittenAnswer'>
type Line = Written['lines'][number]

/** What the campaign answers: a few sentences, then every job, the best first. */
export function AnswerCard({ answer }: { answer: Written }) {
  const columns = useMemo(() => columnsOf(answer.columns), [answer.columns])
  return (
    <Card title="Answer" aside={<span className="quiet">{answer.title}</span>}>
      <div className="answer">
        {answer.sentences.map((one) => (
          <p key={one}>{one}</p>
        ))}
      </div>
      {answer.columns.length > 0 && (
        <div className="one-line">
          <Table label="Jobs, the best first" rows={answer.lines} columns={columns} keyOf={(line) => line.job} />
        </div>
      )}
    </Card>
  )
}

// The table of all results has the others.
const MOST_METRICS = 4

function columnsOf(metrics: Written['columns']): ColumnDef<Line>[] {
  return [
    {
      id: 'job',
      header: 'Job',
      accessorFn: (line) => line.index,
      cell: ({ row: { original: line } }) => (
        <Link to="/jobs/$job" params={{ job: line.job }} className="cut" title={line.label}>
          {line.label}
        </Link>
      ),
    },
    ...metrics.slice(0, MOST_METRICS).map(metricColumn),
    {
      id: 'verdict',
      header: 'Verdict',
      accessorFn: (line) => line.verdict,
      cell: ({ row: { original: line } }) => <Judged line={line} />,
    },
    { id: 'reason', header: 'Main reason', accessorFn: (line) => line.reason },
  ]
}

/** The first metric has its interval beside it. */
function metricColumn({ metric, unit, better }: Written['columns'][number], at: number): ColumnDef<Line> {
  const arrow = better === 'lower' ? ' ↓' : better === 'higher' ? ' ↑' : ''
  const named = unit && !metric.endsWith(`_${unit}`) && !metric.includes('per_') ? `${metric}, ${unit}` : metric
  return {
    id: `metric.${metric}`,
    header: () => (
      <span title={better ? `${better} is better` : undefined}>
        {named}
        {arrow}
      </span>
    ),
    meta: { right: true },
    enableSorting: false,
    cell: ({ row: { original: line } }) => {
      const cell = line.cells[at]
      if (cell === undefined) return null
      return (
        <span className="number">
          <strong>{cell.value}</strong> {at === 0 && <span className="quiet interval">{cell.interval} </span>}
          <span className="quiet">{cell.spread}</span>
        </span>
      )
    },
  }
}

const VERDICTS = ['valid', 'suspect', 'invalid', 'not judged']

function Judged({ line }: { line: Line }) {
  return VERDICTS.includes(line.verdict) ? <Verdict verdict={line.verdict} /> : <State state={line.verdict} />
}
