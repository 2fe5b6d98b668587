import { useQuery } from '@tanstack/react-query'
import type { ColumnDef } from '@tanstack/react-table'
import { type FormEvent, useMemo, useState } from 'react'
import { pricesQuery } from '@/api/queries/settings'
import type { paths } from '@/api/schema'
import { useRights } from '@/app/rights'
import { useRemovePrice, useSetPrice } from '@/pages/settings/acting'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { Empty } from '@/parts/Empty'
import { Field } from '@/parts/Field'
import { Table } from '@/parts/Table'
import { Ago } from '@/parts/Time'

type Price = paths['/api/v1/prices']['get']['responses'][200]['content']['application/json']['items'][number]

/** What machines cost by the hour, for figures per dollar. */
export function Prices() {
  const { use } = useRights()
  const query = useQuery(pricesQuery())
  return (
    <Card title="Prices">
      <p className="quiet">
        What a machine costs by the hour. Compare uses it for figures per dollar where a result carries no price of its
        own.
      </p>
      {use && <PriceForm />}
      <Asked query={query} what="prices">
        {(page) =>
          page.items.length === 0 ? (
            <Empty title="No price is known.">
              <p>Without one, figures per dollar are absent: they are never guessed.</p>
            </Empty>
          ) : (
            <PriceTable prices={page.items} />
          )
        }
      </Asked>
    </Card>
  )
}

const today = () => new Date().toISOString().slice(0, 10)

function PriceForm() {
  const set = useSetPrice()
  const [machine, setMachine] = useState('')
  const [perHour, setPerHour] = useState('')
  const [currency, setCurrency] = useState('USD')
  const [date, setDate] = useState(today)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    set.mutate(
      { machine: machine.trim(), per_hour: Number(perHour), currency, date },
      { onSuccess: () => setMachine('') },
    )
  }
  return (
    <form className="filters" onSubmit={submit}>
      <Field label="Machine">
        {(id) => (
          <input
            id={id}
            required
            maxLength={200}
            placeholder="a name, or gpu-*"
            value={machine}
            onChange={(event) => setMachine(event.target.value)}
          />
        )}
      </Field>
      <Field label="Price per hour">
        {(id) => (
          <input
            id={id}
            required
            type="number"
            min="0"
            step="any"
            value={perHour}
            onChange={(event) => setPerHour(event.target.value)}
          />
        )}
      </Field>
      <Field label="Currency">
        {(id) => (
          <input
            id={id}
            required
            pattern="[A-Z]{3}"
            title="three capital letters"
            className="currency"
            value={currency}
            onChange={(event) => setCurrency(event.target.value.toUpperCase())}
          />
        )}
      </Field>
      <Field label="Looked up on">
        {(id) => <input id={id} required type="date" value={date} onChange={(event) => setDate(event.target.value)} />}
      </Field>
      <button type="submit" className="button primary" disabled={set.isPending}>
        Keep
      </button>
    </form>
  )
}

function PriceTable({ prices }: { prices: Price[] }) {
  const { use } = useRights()
  const columns = useMemo(() => (use ? [...COLUMNS, REMOVE] : COLUMNS), [use])
  return <Table label="All prices" rows={prices} columns={columns} keyOf={(price) => price.machine} />
}

const COLUMNS: ColumnDef<Price, unknown>[] = [
  { id: 'machine', header: 'Machine', accessorFn: (price) => price.machine },
  {
    id: 'price',
    header: 'Price per hour',
    accessorFn: (price) => price.per_hour,
    meta: { right: true },
    cell: ({ row: { original: price } }) => `${price.per_hour} ${price.currency}`,
  },
  { id: 'date', header: 'Looked up on', accessorFn: (price) => price.date },
  { id: 'by', header: 'By', accessorFn: (price) => price.by },
  {
    id: 'changed',
    header: 'Changed',
    accessorFn: (price) => price.changed_at,
    cell: ({ row }) => <Ago at={row.original.changed_at} />,
  },
]

const REMOVE: ColumnDef<Price, unknown> = {
  id: 'remove',
  header: () => <span className="unseen">Remove</span>,
  enableSorting: false,
  meta: { right: true },
  cell: ({ row }) => <Remove machine={row.original.machine} />,
}

function Remove({ machine }: { machine: string }) {
  const remove = useRemovePrice()
  return (
    <button type="button" className="button plain" disabled={remove.isPending} onClick={() => remove.mutate(machine)}>
      Remove<span className="unseen"> the price of {machine}</span>
    </button>
  )
}
