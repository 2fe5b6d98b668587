import { useQuery } from '@tanstack/react-query'
import type { ColumnDef } from '@tanstack/react-table'
import { useMemo, useState } from 'react'
import type { Api } from '@/api/client'
import { sessionQuery } from '@/api/queries/session'
import { tokensQuery } from '@/api/queries/settings'
import { useRights } from '@/app/rights'
import { useRevokeToken } from '@/pages/settings/acting'
import { MakeToken } from '@/pages/settings/MakeToken'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { Dialog } from '@/parts/Dialog'
import { Empty } from '@/parts/Empty'
import { Loading } from '@/parts/Loading'
import { Table } from '@/parts/Table'
import { Ago } from '@/parts/Time'

type Token = Api<'Token'>

/** Who may use the server. Only an admin sees and changes it. */
export function Tokens() {
  const { admin } = useRights()
  const session = useQuery(sessionQuery())
  if (!session.data) return <Loading what="the session" />
  if (!admin)
    return (
      <Card title="Tokens">
        <p>Your role is “{session.data.role}”. Only an admin sees the tokens and makes new ones.</p>
      </Card>
    )
  return (
    <Card title="Tokens">
      <p className="quiet">
        A token is a secret that grants access. The server keeps only its hash.
        {session.data.open &&
          ' This server is open: everybody on this machine is admin until the first token is made and the server starts again.'}
      </p>
      <MakeToken />
      <TokenList />
    </Card>
  )
}

function TokenList() {
  const query = useQuery(tokensQuery())
  const [leaving, setLeaving] = useState<Token | null>(null)
  const columns = useMemo(() => [...COLUMNS, revokeColumn(setLeaving)], [])
  return (
    <Asked query={query} what="tokens">
      {(page) => (
        <>
          {page.items.length === 0 ? (
            <Empty title="There is no token yet." />
          ) : (
            <Table label="All tokens" rows={page.items} columns={columns} keyOf={(token) => token.id} />
          )}
          <Revoke token={leaving} onClose={() => setLeaving(null)} />
        </>
      )}
    </Asked>
  )
}

const COLUMNS: ColumnDef<Token, unknown>[] = [
  { id: 'name', header: 'Name', accessorFn: (token) => token.name },
  { id: 'role', header: 'Role', accessorFn: (token) => token.role },
  {
    id: 'made',
    header: 'Made',
    accessorFn: (token) => token.created_at,
    cell: ({ row }) => <Ago at={row.original.created_at} />,
  },
  {
    id: 'used',
    header: 'Last used',
    accessorFn: (token) => token.last_used ?? 0,
    cell: ({ row: { original: token } }) =>
      token.last_used ? <Ago at={token.last_used} /> : <span className="quiet">never</span>,
  },
  {
    id: 'ends',
    header: 'Ends',
    accessorFn: (token) => token.expires_at ?? Number.POSITIVE_INFINITY,
    cell: ({ row: { original: token } }) =>
      token.expires_at ? <Ago at={token.expires_at} /> : <span className="quiet">never</span>,
  },
]

function revokeColumn(onRevoke: (token: Token) => void): ColumnDef<Token, unknown> {
  return {
    id: 'revoke',
    header: () => <span className="unseen">Revoke</span>,
    enableSorting: false,
    meta: { right: true },
    cell: ({ row: { original: token } }) => (
      <button type="button" className="button plain" onClick={() => onRevoke(token)}>
        Revoke<span className="unseen"> {token.name}</span>
      </button>
    ),
  }
}

function Revoke({ token, onClose }: { token: Token | null; onClose: () => void }) {
  const revoke = useRevokeToken()
  return (
    <Dialog title={`Revoke the token ${token?.name ?? ''}?`} open={token !== null} onClose={onClose}>
      <p>It stops working immediately. This cannot be undone.</p>
      <p className="actions">
        <button
          type="button"
          className="button danger"
          disabled={revoke.isPending}
          onClick={() => token && revoke.mutate(token, { onSettled: onClose })}
        >
          Revoke it
        </button>
        <button type="button" className="button" onClick={onClose}>
          Keep it
        </button>
      </p>
    </Dialog>
  )
}
