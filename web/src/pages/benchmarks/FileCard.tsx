import type { Api } from '@/api/client'
import { writtenOf } from '@/pages/editor/document'
import { Card } from '@/parts/Card'
import { useTell } from '@/parts/Toasts'

/** What the file says in one version, as YAML. */
export function FileCard({ stored }: { stored: Api<'StoredBenchmark'> }) {
  const text = writtenOf(stored.document)
  const tell = useTell()
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => tell('Copied'),
      (problem: unknown) => tell('It was not copied', problem),
    )
  const files = Object.entries(stored.files)
  return (
    <Card
      title={`File, version ${stored.version}`}
      aside={
        navigator.clipboard && (
          <button type="button" className="button plain" onClick={() => void copy()}>
            Copy
          </button>
        )
      }
    >
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached with the keyboard */}
      <section className="benchmark-file" tabIndex={0} aria-label="The benchmark file">
        <pre>{text}</pre>
      </section>
      {files.length > 0 && (
        <>
          <h3>Files that it names</h3>
          <dl className="facts">
            {files.map(([name, kept]) => (
              <Named key={name} name={name} kept={kept} />
            ))}
          </dl>
        </>
      )}
    </Card>
  )
}

function Named({ name, kept }: { name: string; kept: Api<'JobFile'>[] }) {
  return (
    <>
      <dt>{name}</dt>
      <dd className="mono">
        {kept
          .map((one) => `${one.name} ${one.size_bytes.toLocaleString('en-US')} B ${one.sha256.slice(0, 12)}`)
          .join(', ')}
      </dd>
    </>
  )
}
