/** One server-sent event of the API: `kind` is its name (`job`, `campaign`, `progress`, …). */
export interface LiveEvent {
  id: string
  kind: string
  data: Record<string, unknown>
}

/** Read server-sent events from a body. (EventSource cannot send a token.) */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<LiveEvent> {
  const reader = body.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>).getReader()
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const parts = (rest + value).split(/\r?\n\r?\n/)
      rest = parts.pop() ?? ''
      for (const part of parts) {
        const event = parseEvent(part)
        if (event !== null) yield event
      }
    }
  } finally {
    void reader.cancel()
  }
}

/** One block of lines as an event; null for a comment that only keeps the line open. */
export function parseEvent(block: string): LiveEvent | null {
  let id = ''
  let kind = 'message'
  const data: string[] = []
  for (const line of block.split(/\r?\n/)) {
    const [field, value] = [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).replace(/^ /, '')]
    if (field === 'id') id = value
    else if (field === 'event') kind = value
    else if (field === 'data') data.push(value)
  }
  if (data.length === 0) return null
  try {
    return { id, kind, data: JSON.parse(data.join('\n')) as Record<string, unknown> }
  } catch {
    return null
  }
}
