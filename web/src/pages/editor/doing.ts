/** What can be done with a file: run it, keep it, have it run by itself. */
import { type Api, client, ok } from '@/api/client'
import type { Plain } from './document'
import type { Files } from './reading'

type Submitted = Pick<Api<'Submission'>, 'document' | 'files'>

export function submissionOf(document: Plain, files: Files): Submitted {
  return { document: document as Submitted['document'], files }
}

export const runNow = (document: Plain, files: Files) =>
  ok(client.POST('/api/v1/campaigns', { body: submissionOf(document, files) as Api<'Submission'> }))

export const addSchedule = (document: Plain, files: Files) =>
  ok(client.POST('/api/v1/schedules', { body: submissionOf(document, files) as Api<'Submission'> }))

export const keepNew = (document: Plain, files: Files) =>
  ok(client.POST('/api/v1/benchmarks', { body: submissionOf(document, files) as Api<'BenchmarkInput'> }))

/** Keep a new version; with `version`, only if that is still the newest. */
export const keepNext = (name: string, document: Plain, files: Files, version?: number) =>
  ok(
    client.PUT('/api/v1/benchmarks/{name}', {
      params: { path: { name }, header: version === undefined ? {} : { 'if-match': `"${version}"` } },
      body: submissionOf(document, files) as Api<'BenchmarkInput'>,
    }),
  )

/** Whether this browser can tell the content of a file by its hash: over https, or on the server's own machine. */
export const canHash = () => globalThis.crypto?.subtle !== undefined

/** Send a file to the server; it goes by the hash of its content. */
export async function sendFile(file: File): Promise<Api<'JobFile'>> {
  const content = new Uint8Array(await file.arrayBuffer())
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', content))
  const sha256 = Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('')
  await ok(
    client.PUT('/api/v1/artefacts/{sha256}', {
      params: { path: { sha256 }, query: { name: file.name } },
      body: '',
      bodySerializer: () => content,
      headers: { 'Content-Type': 'application/octet-stream' },
    }),
  )
  return { name: file.name, sha256, size_bytes: file.size }
}
