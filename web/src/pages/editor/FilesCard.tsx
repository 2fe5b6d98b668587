import { useMutation } from '@tanstack/react-query'
import type { ChangeEvent } from 'react'
import type { Api } from '@/api/client'
import { Card } from '@/parts/Card'
import { Failure } from '@/parts/Failure'
import { Field } from '@/parts/Field'
import { canHash, sendFile } from './doing'
import type { Files } from './reading'

/** Files of this computer that the benchmark names: they go to the server, and from there to the agent. */
export function FilesCard({ files, onFiles }: { files: Files; onFiles: (files: Files) => void }) {
  const send = useMutation({
    mutationFn: (chosen: File[]) => Promise.all(chosen.map(sendFile)),
    onSuccess: (sent) => onFiles({ ...files, ...named(sent) }),
  })
  const choose = (event: ChangeEvent<HTMLInputElement>) => {
    send.mutate([...(event.target.files ?? [])])
    event.target.value = ''
  }
  const without = (name: string) =>
    onFiles(Object.fromEntries(Object.entries(files).filter(([other]) => other !== name)))
  return (
    <Card title="Uploaded files">
      <p className="quiet">
        A model, a script or data on your computer that the benchmark file names. Name it in the file exactly as it is
        called here.
      </p>
      {Object.entries(files).length > 0 && (
        <ul className="travelling">
          {Object.entries(files).map(([name, parts]) => (
            <li key={name}>
              <code>{name}</code> <span className="quiet">{parts.map(sizeOf).join(', ')}</span>{' '}
              <button type="button" className="button plain" onClick={() => without(name)}>
                Remove<span className="unseen"> {name}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
      {canHash() ? (
        <Field label="Add files" hint={send.isPending ? 'Sending…' : undefined}>
          {(id) => <input id={id} type="file" multiple onChange={choose} disabled={send.isPending} />}
        </Field>
      ) : (
        <p>
          This browser can add files only over https or on the server’s own machine.{' '}
          <code>assay run FILE --server URL</code> sends them too.
        </p>
      )}
      {send.error && <Failure error={send.error} />}
    </Card>
  )
}

/** Each file by its name; what was chosen together with one ONNX file belongs to that: its weights. */
export function named(sent: Api<'JobFile'>[]): Files {
  const models = sent.filter((one) => one.name.endsWith('.onnx'))
  const [model] = models
  if (model !== undefined && models.length === 1)
    return { [model.name]: [model, ...sent.filter((one) => one !== model)] }
  return Object.fromEntries(sent.map((one) => [one.name, [one]]))
}

function sizeOf(file: Api<'JobFile'>): string {
  const megabytes = file.size_bytes / 1e6
  return megabytes < 0.1 ? `${file.size_bytes} bytes` : `${megabytes.toFixed(1)} MB`
}
