/** The four common cases: how each begins, and which keys of the file its form shows. */
import { isPlain, type Path, type Plain, valueAt, withValue } from './document'
import command from './starters/command.yaml?raw'
import endpoint from './starters/endpoint.yaml?raw'
import model from './starters/model.yaml?raw'
import service from './starters/service.yaml?raw'

export type CaseKey = 'model' | 'endpoint' | 'service' | 'command'

export interface Entry {
  label: string
  /** `$service` stands for the name of the file's service. */
  path: Path
  /** `axis`: one value, or several that the matrix varies; `secret`: the name of a variable that holds a key. */
  kind: 'text' | 'number' | 'choice' | 'axis' | 'secret'
  hint?: string
  options?: readonly string[]
}

export interface Case {
  key: CaseKey
  name: string
  says: string
  starter: string
  entries: readonly Entry[]
}

const NAME: Entry = { label: 'Name of the benchmark', path: ['benchmark'], kind: 'text' }
const RUNS: Entry = {
  label: 'Runs',
  path: ['measure', 'runs'],
  kind: 'number',
  hint: 'Fresh processes. The spread between them is the error term: 5 is a good start.',
}
const APIS = ['openai-chat', 'openai-completions', 'openai-embeddings', 'ollama', 'http'] as const
const TOKENS: readonly Entry[] = [
  {
    label: 'Prompt length (tokens)',
    path: ['workload', 'input_tokens'],
    kind: 'axis',
    hint: 'Needs the model’s tokenizer: a server with /tokenize (vLLM, llama.cpp), or target.tokenizer. Several, such as 128, 1024, make a job each.',
  },
  { label: 'Answer length (tokens)', path: ['workload', 'output_tokens'], kind: 'axis' },
]
const DRIVEN: readonly Entry[] = [
  {
    label: 'Requests in flight',
    path: ['load', 'concurrency'],
    kind: 'axis',
    hint: 'A closed loop. Empty, if you give a rate.',
  },
  {
    label: 'Requests per second',
    path: ['load', 'rate'],
    kind: 'axis',
    hint: 'An open loop; the word search finds the highest rate that keeps the objective.',
  },
  { label: 'Measure for', path: ['load', 'duration'], kind: 'text', hint: 'Such as 60s.' },
]
const OBJECTIVE: readonly Entry[] = [
  { label: 'First token within (ms, p99)', path: ['objective', 'ttft_ms.p99'], kind: 'number' },
  { label: 'Between tokens (ms, p99)', path: ['objective', 'itl_ms.p99'], kind: 'number' },
]

export const CASES: readonly Case[] = [
  {
    key: 'model',
    name: 'Model file',
    starter: model,
    says: 'A model that runs inside a process of the agent: ONNX Runtime, PyTorch or Transformers.',
    entries: [
      NAME,
      {
        label: 'Model',
        path: ['target', 'model'],
        kind: 'text',
        hint: 'A name that assay knows such as squeezenet, an http(s) URL, or a file added below.',
      },
      {
        label: 'Runtime',
        path: ['target', 'runtime'],
        kind: 'choice',
        options: ['onnxruntime', 'torch', 'transformers'],
      },
      {
        label: 'Device',
        path: ['target', 'device'],
        kind: 'choice',
        options: ['cpu', 'cuda', 'tensorrt', 'directml', 'openvino', 'coreml', 'mps'],
        hint: 'A run that used another device fails.',
      },
      {
        label: 'Batch',
        path: ['workload', 'batch'],
        kind: 'axis',
        hint: 'Several, such as 1, 8, 32, make a job each.',
      },
      { label: 'Threads', path: ['target', 'threads'], kind: 'axis', hint: 'The runtime decides when this is empty.' },
      RUNS,
    ],
  },
  {
    key: 'endpoint',
    name: 'LLM endpoint',
    starter: endpoint,
    says: 'A language model behind an address: vLLM, llama.cpp, Ollama, a paid API.',
    entries: [
      NAME,
      {
        label: 'Address',
        path: ['target', 'endpoint'],
        kind: 'text',
        hint: 'As an agent reaches it, such as http://10.0.0.5:8000/v1.',
      },
      { label: 'Protocol', path: ['target', 'api'], kind: 'choice', options: APIS },
      { label: 'Model', path: ['target', 'model'], kind: 'text', hint: 'As the server calls it.' },
      {
        label: 'Variable with the key',
        path: ['target', 'headers', 'Authorization'],
        kind: 'secret',
        hint: 'The name of a variable in the agent’s environment, such as API_KEY. The key itself never comes here.',
      },
      ...TOKENS,
      ...DRIVEN,
      ...OBJECTIVE,
      RUNS,
    ],
  },
  {
    key: 'service',
    name: 'Service',
    starter: service,
    says: 'A server that is started for the benchmark, measured, and ended.',
    entries: [
      NAME,
      {
        label: 'Command that starts it',
        path: ['services', '$service', 'command'],
        kind: 'text',
        hint: '{port} stands for its port, {host} for the address to listen on.',
      },
      {
        label: 'Container image',
        path: ['services', '$service', 'image'],
        kind: 'text',
        hint: 'A plain process when this is empty.',
      },
      {
        label: 'Port',
        path: ['services', '$service', 'port'],
        kind: 'number',
        hint: 'A free one is chosen when this is empty.',
      },
      {
        label: 'Ready when this path answers',
        path: ['services', '$service', 'ready', 'http'],
        kind: 'text',
        hint: 'Such as /health.',
      },
      {
        label: 'Protocol',
        path: ['target', 'api'],
        kind: 'choice',
        options: [...APIS, 'qdrant', 'chroma', 'milvus', 'pgvector'],
      },
      { label: 'Model', path: ['target', 'model'], kind: 'text' },
      ...TOKENS,
      ...DRIVEN,
      RUNS,
    ],
  },
  {
    key: 'command',
    name: 'Command',
    starter: command,
    says: 'Any program that prints its numbers or emits them. Only agents started with --allow command take it.',
    entries: [
      NAME,
      {
        label: 'Command',
        path: ['target', 'command'],
        kind: 'text',
        hint: 'Files that it names can be added below: they travel with it.',
      },
      {
        label: 'Metric',
        path: ['target', 'metrics', 0, 'name'],
        kind: 'text',
        hint: 'With its unit last, such as images_per_s.',
      },
      { label: 'Unit', path: ['target', 'metrics', 0, 'unit'], kind: 'text' },
      { label: 'Better is', path: ['target', 'metrics', 0, 'better'], kind: 'choice', options: ['higher', 'lower'] },
      {
        label: 'Found in the output by',
        path: ['target', 'metrics', 0, 'pattern'],
        kind: 'text',
        hint: 'A regular expression whose first group is the number; empty for assay.emit.',
      },
      RUNS,
      { label: 'Longest run', path: ['measure', 'timeout'], kind: 'text', hint: 'Such as 10m.' },
    ],
  },
]

/** Which of the cases a file is; null for another one, such as the hardware itself. */
export function caseOf(plain: Plain | null): CaseKey | null {
  const target = plain?.target
  if (!isPlain(target)) return null
  if ('command' in target || 'image' in target) return 'command'
  if ('service' in target) return 'service'
  if ('endpoint' in target) return 'endpoint'
  return 'model' in target ? 'model' : null
}

/** What a form shows for an entry. */
export function shownValue(plain: Plain, entry: Entry): string {
  const path = placed(plain, entry.path)
  if (entry.kind === 'secret') return /^Bearer \$\{env:(.*)\}$/.exec(String(valueAt(plain, path) ?? ''))?.[1] ?? ''
  const varied = valueAt(plain, ['matrix', path.join('.')])
  const value = entry.kind === 'axis' && varied !== undefined ? varied : valueAt(plain, path)
  if (value === undefined || value === null) return ''
  if (Array.isArray(value)) return value.map(String).join(', ')
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** The file after something was written into a form. */
export function withEntry(text: string, plain: Plain, entry: Entry, written: string): string {
  const path = placed(plain, entry.path)
  const word = written.trim()
  if (entry.kind === 'secret') return withValue(text, path, word === '' ? undefined : `Bearer \${env:${word}}`)
  if (entry.kind !== 'axis')
    return withValue(text, path, word === '' ? undefined : entry.kind === 'number' ? numberOr(word) : written)
  const values = word
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')
    .map(numberOr)
  const axis = ['matrix', path.join('.')]
  if (values.length > 1) return withValue(withValue(text, path, undefined), axis, values)
  return withValue(withValue(text, axis, undefined), path, values[0])
}

function placed(plain: Plain, path: Path): Path {
  if (!path.includes('$service')) return path
  const named = valueAt(plain, ['target', 'service'])
  return path.map((key) => (key === '$service' ? (typeof named === 'string' ? named : 'llm') : key))
}

// A word that is no number stays a word: the server says what is wrong with it.
function numberOr(word: string): number | string {
  return /^-?\d+(\.\d+)?$/.test(word) ? Number(word) : word
}
