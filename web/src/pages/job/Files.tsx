import type { ColumnDef } from '@tanstack/react-table'
import { address } from '@/app/base'
import { bytes } from '@/pages/job/facts'
import type { Full } from '@/pages/job/words'
import { Card } from '@/parts/Card'
import { Download } from '@/parts/Download'
import { Empty } from '@/parts/Empty'
import { Table } from '@/parts/Table'

interface Left {
  name: string
  from: string
  size: number | null
  sha256: string
}

/** Files of a job by name: those that agents attached, and those that runs left. */
export function filesOf(full: Full): Left[] {
  const attached = full.artefacts.map((one) => ({
    name: one.name,
    from: `attempt ${one.fence}`,
    size: one.size_bytes,
    sha256: one.sha256,
  }))
  const known = new Set(attached.map((one) => one.sha256))
  const left = full.result.runs.flatMap((run) =>
    Object.entries(run.files ?? {}).map(([name, sha256]) => ({
      name,
      from: `run ${run.run_id + 1}`,
      size: null,
      sha256,
    })),
  )
  return [...attached, ...left.filter((one) => !known.has(one.sha256))]
}

const COLUMNS: ColumnDef<Left, unknown>[] = [
  {
    id: 'name',
    header: 'file',
    accessorFn: (one) => one.name,
    cell: ({ row }) => (
      <Download path={`/api/v1/artefacts/${row.original.sha256}`} name={row.original.name}>
        {row.original.name}
      </Download>
    ),
  },
  { id: 'from', header: 'left by', accessorFn: (one) => one.from },
  {
    id: 'size',
    header: 'size',
    meta: { right: true },
    accessorFn: (one) => one.size,
    cell: ({ row }) => (row.original.size === null ? '–' : bytes(row.original.size)),
  },
  {
    id: 'sha256',
    header: 'SHA-256',
    accessorFn: (one) => one.sha256,
    cell: ({ row }) => <code title={row.original.sha256}>{row.original.sha256.slice(0, 16)}…</code>,
  },
]

/** What a job left behind, to take away. */
export function Files({ full }: { full: Full }) {
  const files = filesOf(full)
  const { id, campaign } = full.summary
  return (
    <>
      <Card title="Files">
        <p className="quiet">
          Telemetry, answers, logs of services and other files of the attempts, each named by the hash of its content.
        </p>
        {files.length > 0 ? (
          <Table label="List of files" rows={files} columns={COLUMNS} keyOf={(one) => `${one.from} ${one.name}`} />
        ) : (
          <Empty title="The attempts left no files." />
        )}
      </Card>
      <Card title="Result documents">
        <ul className="plain-list">
          <li>
            <Download path={`/api/v1/jobs/${encodeURIComponent(id)}/result`} name={`${id}.json`}>
              The result of this job as JSON
            </Download>
          </li>
          <li>
            <Download path={`/api/v1/campaigns/${encodeURIComponent(campaign)}/results.html`} name={`${campaign}.html`}>
              The report of its campaign as one HTML file
            </Download>
          </li>
          <li>
            <Download
              path={`/api/v1/results/export?campaign=${encodeURIComponent(campaign)}&format=zip`}
              name={`${campaign}.zip`}
            >
              Its campaign with all samples and files as ZIP
            </Download>
          </li>
        </ul>
        <p className="quiet">
          The same by command:{' '}
          <code>
            curl {window.location.origin}
            {address(`/api/v1/jobs/${id}/result`)}
          </code>
        </p>
      </Card>
    </>
  )
}
