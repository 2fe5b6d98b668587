import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { sessionQuery } from '@/api/queries/session'
import { basePath } from '@/app/base'
import { Card } from '@/parts/Card'
import { useTell } from '@/parts/Toasts'

/** The three commands that lead to a first result here. */
export function startCommands(server: string): [string, string][] {
  return [
    ['On the machine that is to measure: let it take jobs from this server.', `assay agent start --server ${server}`],
    [
      'Write a benchmark file, here for a small image network that assay brings along.',
      'assay init squeezenet --out bench.yaml',
    ],
    ['Submit it; this page follows it live.', `assay run bench.yaml --server ${server}`],
  ]
}

/** What an empty server shows: how to begin. */
export function Start({ agents }: { agents: number }) {
  const session = useQuery(sessionQuery())
  const commands = startCommands(`${window.location.origin}${basePath}`)
  return (
    <Card title="Nothing has been measured yet">
      <p>
        Three commands lead to a first result
        {agents > 0
          ? ` (${agents === 1 ? 'one agent is' : `${agents} agents are`} enrolled already, so the first is done)`
          : ''}
        :
      </p>
      <ol className="start-steps">
        {commands.map(([says, command]) => (
          <li key={command}>
            {says}
            <Command text={command} />
          </li>
        ))}
      </ol>
      {session.data?.open === false && (
        <p className="quiet">
          This server requires a token: put one into ASSAY_TOKEN on each machine. <code>assay tokens create</code> makes
          one.
        </p>
      )}
      <p>
        Or <Link to="/benchmarks/new">write the benchmark here</Link>. To look around first,{' '}
        <code>assay demo-data</code> fills a store with a simulated year.
      </p>
    </Card>
  )
}

function Command({ text }: { text: string }) {
  const tell = useTell()
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => tell('Copied'),
      (problem: unknown) => tell('It was not copied', problem),
    )
  return (
    <div className="start-command">
      <pre>
        <code>{text}</code>
      </pre>
      {navigator.clipboard && (
        <button type="button" className="button" onClick={() => void copy()} aria-label={`Copy ${text}`}>
          Copy
        </button>
      )}
    </div>
  )
}
