import {
  type ColumnDef,
  flexRender,
  getCoreRowModel,
  getSortedRowModel,
  type SortingState,
  useReactTable,
} from '@tanstack/react-table'
import { useVirtualizer } from '@tanstack/react-virtual'
import { useRef, useState } from 'react'

interface TableProps<Row> {
  label: string
  rows: Row[]
  // biome-ignore lint/suspicious/noExplicitAny: the cells of a table are of many types
  columns: ColumnDef<Row, any>[]
  keyOf: (row: Row) => string
  sorting?: SortingState
  onSorting?: (next: SortingState) => void
  /** Asked for when the end comes into sight. */
  onEnd?: () => void
}

// Fewer rows than this are all drawn: the browser's own search then finds them.
const VIRTUAL_FROM = 100
const ROW_PX = 37
const OVERSCAN = 12

/** A table that sorts, and draws only the rows in sight once there are many. `meta: { right: true }` aligns a column. */
export function Table<Row>({ label, rows, columns, keyOf, sorting, onSorting, onEnd }: TableProps<Row>) {
  const [own, setOwn] = useState<SortingState>([])
  const shown = sorting ?? own
  const table = useReactTable({
    data: rows,
    columns,
    getRowId: keyOf,
    state: { sorting: shown },
    onSortingChange: (next) => (onSorting ?? setOwn)(typeof next === 'function' ? next(shown) : next),
    getCoreRowModel: getCoreRowModel(),
    getSortedRowModel: getSortedRowModel(),
  })
  const box = useRef<HTMLElement>(null)
  const all = table.getRowModel().rows
  const isVirtual = all.length > VIRTUAL_FROM
  const virtual = useVirtualizer({
    count: all.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    enabled: isVirtual,
  })
  const seen = virtual.getVirtualItems()
  const before = isVirtual ? (seen[0]?.start ?? 0) : 0
  const after = isVirtual ? virtual.getTotalSize() - (seen.at(-1)?.end ?? 0) : 0
  const drawn = isVirtual ? seen.flatMap((one) => all[one.index] ?? []) : all
  const onScroll = () => {
    const at = box.current
    if (onEnd && at && at.scrollHeight - at.scrollTop - at.clientHeight < 20 * ROW_PX) onEnd()
  }
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached with the keyboard
    <section className="scroll" ref={box} onScroll={onScroll} tabIndex={0} aria-label={label}>
      <table className="table" aria-rowcount={all.length + 1}>
        <thead>
          {table.getHeaderGroups().map((group) => (
            <tr key={group.id}>
              {group.headers.map((header) => {
                const way = header.column.getIsSorted()
                const title = flexRender(header.column.columnDef.header, header.getContext())
                const right = (header.column.columnDef.meta as { right?: boolean } | undefined)?.right
                return (
                  <th
                    key={header.id}
                    scope="col"
                    className={right ? 'right' : undefined}
                    aria-sort={way === 'asc' ? 'ascending' : way === 'desc' ? 'descending' : undefined}
                  >
                    {header.column.getCanSort() ? (
                      <button type="button" onClick={header.column.getToggleSortingHandler()}>
                        {title}
                        <span aria-hidden="true">{way === 'asc' ? '↑' : way === 'desc' ? '↓' : ''}</span>
                      </button>
                    ) : (
                      title
                    )}
                  </th>
                )
              })}
            </tr>
          ))}
        </thead>
        <tbody>
          {before > 0 && <Space height={before} columns={columns.length} />}
          {drawn.map((row) => (
            <tr key={row.id} aria-rowindex={row.index + 2}>
              {row.getVisibleCells().map((cell) => {
                const right = (cell.column.columnDef.meta as { right?: boolean } | undefined)?.right
                return (
                  <td key={cell.id} className={right ? 'right' : undefined}>
                    {flexRender(cell.column.columnDef.cell, cell.getContext())}
                  </td>
                )
              })}
            </tr>
          ))}
          {after > 0 && <Space height={after} columns={columns.length} />}
        </tbody>
      </table>
    </section>
  )
}

/** The room of rows that are not drawn. */
function Space({ height, columns }: { height: number; columns: number }) {
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a row of a table takes no focus
    <tr aria-hidden="true">
      <td colSpan={columns} style={{ height, padding: 0, border: 0 }} />
    </tr>
  )
}
