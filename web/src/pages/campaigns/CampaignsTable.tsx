import { Link } from '@tanstack/react-router'
import type { ColumnDef } from '@tanstack/react-table'
import { createContext, useContext } from 'react'
import type { Api } from '@/api/client'
import { StateBar } from '@/pages/campaigns/StateBar'
import { countsText, pairs } from '@/pages/campaigns/words'
import { State } from '@/parts/Mark'
import { Table } from '@/parts/Table'
import { Ago, duration, secondsOf } from '@/parts/Time'

type Row = Api<'CampaignSummary'>
interface TableProps {
  rows: Row[]
  /** They are all of one benchmark, so no row repeats its name. */
  ofOne?: boolean
  /** Campaigns that are marked to be compared, and what marks one. */
  picked?: string[]
  onPick?: (id: string) => void
  onEnd?: () => void
}

const Picking = createContext<{ picked: string[]; onPick: (id: string) => void }>({
  picked: [],
  onPick: () => undefined,
})

/** Campaigns in lines. */
export function CampaignsTable({ rows, ofOne = false, picked = [], onPick, onEnd }: TableProps) {
  const columns = onPick ? WITH_PICK : ofOne ? OF_ONE : PLAIN
  return (
    <Picking.Provider value={{ picked, onPick: onPick ?? (() => undefined) }}>
      <div className="one-line">
        <Table label="Campaigns" rows={rows} columns={columns} keyOf={(row) => row.id} onEnd={onEnd} />
      </div>
    </Picking.Provider>
  )
}

// The server gives them newest first, a page at a time: sorting what happens to be loaded would mislead.
const unsorted = (column: ColumnDef<Row>): ColumnDef<Row> => ({ ...column, enableSorting: false })

const NAME: ColumnDef<Row> = {
  header: 'Benchmark',
  cell: ({ row: { original } }) => (
    <>
      <Link to="/campaigns/$campaign" params={{ campaign: original.id }} className="cut" title={original.benchmark}>
        {original.benchmark}
      </Link>{' '}
      <span className="quiet mono">{original.id}</span>
    </>
  ),
}
const ID: ColumnDef<Row> = {
  header: 'Campaign',
  cell: ({ row: { original } }) => (
    <>
      <Link to="/campaigns/$campaign" params={{ campaign: original.id }}>
        {original.id}
      </Link>
      {original.version && <span className="quiet"> version {original.version}</span>}
    </>
  ),
}
const LINES: ColumnDef<Row>[] = [
  { header: 'State', cell: ({ row: { original } }) => <State state={original.state} /> },
  { header: 'Jobs', cell: ({ row: { original } }) => <Jobs {...original} /> },
  {
    header: 'Submitted',
    cell: ({ row: { original } }) => (
      <span className="two-parts">
        <Ago at={original.created_at} />{' '}
        {original.submitted_by && <span className="quiet">by {original.submitted_by}</span>}
      </span>
    ),
  },
  { header: 'Took', meta: { right: true }, cell: ({ row: { original } }) => took(original) },
  {
    header: 'Labels',
    cell: ({ row: { original } }) => (
      <span className="quiet cut short" title={pairs(original.labels)}>
        {pairs(original.labels) || '–'}
      </span>
    ),
  },
]

// They stay the same: new ones would redraw every cell and lose the focus.
const PICK: ColumnDef<Row> = {
  id: 'pick',
  header: () => <span className="unseen">Compare</span>,
  cell: ({ row: { original } }) => <Pick {...original} />,
}
const PLAIN = [NAME, ...LINES].map(unsorted)
const OF_ONE = [ID, ...LINES].map(unsorted)
const WITH_PICK = [PICK, NAME, ...LINES].map(unsorted)

function Jobs({ counts = {}, jobs, jobs_ended: ended }: Row) {
  return (
    <div className="jobs-cell">
      <StateBar counts={counts} jobs={jobs} ended={ended} />
      <span className="quiet">{together(countsText(counts))}</span>
    </div>
  )
}

/** A number stays in the line of its word. */
const together = (text: string) => text.replaceAll(/(\d) /g, '$1\u00a0')

function took({ created_at: from, completed_at: to }: Row) {
  return to ? duration(secondsOf(to) - secondsOf(from)) : <span className="quiet">–</span>
}

function Pick({ id, benchmark }: Row) {
  const { picked, onPick } = useContext(Picking)
  return (
    <input
      type="checkbox"
      checked={picked.includes(id)}
      onChange={() => onPick(id)}
      aria-label={`Compare ${benchmark} ${id}`}
    />
  )
}
