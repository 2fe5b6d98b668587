import { screen, waitFor, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { describe, expect, it, vi } from 'vitest'
import { answer, showPage } from '@/testing/page'
import type { FileEditorProps } from './FileEditor'
import NewBenchmarkPage from './NewBenchmarkPage'

// The real one is tried in a browser (tests/web/e2e): here a plain field takes its place.
vi.mock('./FileEditor', () => ({
  default: ({ text, onText }: FileEditorProps) => (
    <textarea aria-label="Benchmark file" value={text} onChange={(event) => onText(event.target.value)} />
  ),
}))

const PREVIEW = {
  benchmark: 'mine',
  digest: 'd',
  jobs: 2,
  files_missing: [],
  job_list: [
    { index: 0, label: 'batch=1', digest: 'a', needs: 'onnxruntime on cpu', runs: 5 },
    { index: 1, label: '<b>batch</b>=8', digest: 'b', needs: 'onnxruntime on cpu', runs: 5 },
  ],
  placement: {
    placeable: false,
    says: '2 jobs cannot be placed',
    groups: [
      {
        needs: 'onnxruntime on cpu',
        key: 'k',
        jobs: 2,
        waiting: 2,
        agents: [],
        missing: { 'a pi': ['it has no onnxruntime'] },
        machines: 1,
      },
    ],
  },
}
const READ = { document: { benchmark: 'mine' }, errors: [], preview: PREVIEW }
const WRONG = {
  document: {},
  errors: [
    { message: 'unknown key <i>targt</i>', code: 'unknown-key', line: 2, column: 1, path: 'targt', try: 'target' },
  ],
  preview: null,
}
const SESSION = { name: '', role: 'admin', open: true, version: '1' }
const usual = { 'GET /api/v1/session': SESSION, 'GET /api/v1/schema': {}, 'POST /api/v1/benchmarks/read': READ }

const show = (answers: Record<string, unknown> = {}, address = '/benchmarks/new') => {
  const asked = answer({ ...usual, ...answers })
  return { ...asked, ...showPage(NewBenchmarkPage, '/benchmarks/new', address) }
}
const bodyOf = async (asked: Request[], path: string) => {
  const found = await waitFor(() => {
    const one = asked.findLast((request) => request.method !== 'GET' && new URL(request.url).pathname === path)
    if (one === undefined) throw new Error(`nothing was sent to ${path}`)
    return one
  })
  return found.clone().json()
}

// jsdom's files cannot be read as bytes.
const fileOf = (text: string, name: string) =>
  Object.assign(new File([text], name), { arrayBuffer: async () => new TextEncoder().encode(text).buffer })

describe('a new benchmark', () => {
  it('says what would happen, and what each agent lacks, as text', async () => {
    show()
    const plan = await screen.findByRole('region', { name: 'What would happen' })
    expect(await within(plan).findByText('2 jobs')).toBeTruthy()
    expect(within(plan).getByText(/10 runs in all/)).toBeTruthy()
    expect(within(plan).getByText(/it has no onnxruntime/i)).toBeTruthy()
    expect(within(plan).getByText('<b>batch</b>=8')).toBeTruthy()
    expect(plan.querySelector('b')).toBeNull()
  })

  it('writes the form into the file, and shows the file in the form', async () => {
    show()
    const device = await screen.findByLabelText('Device')
    await userEvent.selectOptions(device, 'cuda')
    const file = await screen.findByLabelText<HTMLTextAreaElement>('Benchmark file')
    expect(file.value).toContain('device: cuda')
    const batch = screen.getByLabelText('Batch')
    await userEvent.clear(batch)
    await userEvent.type(batch, '1, 8')
    expect(file.value).toContain('workload.batch: [1, 8]')
    await userEvent.clear(file)
    await userEvent.type(file, 'benchmark: mine{enter}target:{enter}  command: ls')
    expect(screen.getByLabelText<HTMLInputElement>('Command').value).toBe('ls')
  })

  it('has each case at an address of its own, with a draft of its own', async () => {
    const { router } = show()
    await userEvent.type(await screen.findByLabelText('Name of the benchmark'), '!')
    await userEvent.click(screen.getByRole('radio', { name: /Command/ }))
    expect(await screen.findByLabelText<HTMLInputElement>('Command')).toBeTruthy()
    expect(router.state.location.search).toEqual({ case: 'command' })
    router.history.back()
    await waitFor(() =>
      expect(screen.getByLabelText<HTMLInputElement>('Name of the benchmark').value).toBe('my model!'),
    )
  })

  it('lists what is wrong, and runs nothing', async () => {
    show({ 'POST /api/v1/benchmarks/read': WRONG })
    expect(await screen.findByText(/unknown key <i>targt<\/i>/)).toBeTruthy()
    expect(screen.getByRole('button', { name: 'line 2' })).toBeTruthy()
    expect(screen.getByText('Nothing can be planned yet')).toBeTruthy()
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Run now' }).disabled).toBe(true)
  })

  it('says why the server cannot read it', async () => {
    show({ 'POST /api/v1/benchmarks/read': 403 })
    expect(await screen.findByText('failed with 403')).toBeTruthy()
  })

  it('runs what was read, and goes to the campaign', async () => {
    const { asked, router } = show({
      'POST /api/v1/campaigns': {
        id: 'c1',
        benchmark: 'mine',
        state: 'running',
        jobs: 2,
        placement: PREVIEW.placement,
        schedule: null,
      },
    })
    await screen.findByText('2 jobs')
    await userEvent.click(screen.getByRole('button', { name: 'Run now' }))
    expect(await bodyOf(asked, '/api/v1/campaigns')).toEqual({ document: { benchmark: 'mine' }, files: {} })
    await waitFor(() => expect(router.state.location.pathname).toBe('/campaigns/c1'))
  })

  it('asks before it saves over one of the same name', async () => {
    const { asked } = show({
      'POST /api/v1/benchmarks': 409,
      'PUT /api/v1/benchmarks/mine': { name: 'mine', version: 2, document: {}, files: {} },
    })
    await screen.findByText('2 jobs')
    await userEvent.click(screen.getByRole('button', { name: 'Save' }))
    await userEvent.click(await screen.findByRole('button', { name: 'Save as the next version' }))
    expect(await bodyOf(asked, '/api/v1/benchmarks/mine')).toEqual({ document: { benchmark: 'mine' }, files: {} })
  })

  it('schedules with times and a time zone', async () => {
    const { asked } = show({ 'POST /api/v1/schedules': { id: 's1' } })
    await screen.findByText('2 jobs')
    await userEvent.click(screen.getByRole('button', { name: 'Schedule…' }))
    const zone = await screen.findByLabelText('Time zone')
    await userEvent.clear(zone)
    await userEvent.type(zone, 'UTC')
    await userEvent.click(screen.getByRole('button', { name: 'Schedule' }))
    expect(await bodyOf(asked, '/api/v1/schedules')).toMatchObject({
      document: { benchmark: 'mine', schedule: { cron: '0 3 * * *', timezone: 'UTC' } },
    })
  })

  it('lets a reader look', async () => {
    show({ 'GET /api/v1/session': { ...SESSION, role: 'reader' } })
    expect(await screen.findByText('Your token can view, but not run.')).toBeTruthy()
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Run now' }).disabled).toBe(true)
  })

  it('sends a file by its hash, and names it', async () => {
    const { asked } = show({
      'PUT /api/v1/artefacts/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad': { sha256: 'x' },
    })
    await userEvent.upload(await screen.findByLabelText('Add files'), fileOf('abc', 'tiny.onnx'))
    expect(await screen.findByRole('button', { name: 'Remove tiny.onnx' })).toBeTruthy()
    await waitFor(async () =>
      expect((await bodyOf(asked, '/api/v1/benchmarks/read')).files).toEqual({
        'tiny.onnx': [{ name: 'tiny.onnx', sha256: expect.stringMatching(/^ba7816bf/), size_bytes: 3 }],
      }),
    )
  })
})

describe('a stored benchmark', () => {
  const STORED = {
    name: 'mine',
    version: 3,
    document: { benchmark: 'mine', target: { model: 'squeezenet' } },
    files: {},
  }

  it('begins with its newest version, and saves the next one only if it still is', async () => {
    const { asked } = show(
      { 'GET /api/v1/benchmarks/mine': STORED, 'PUT /api/v1/benchmarks/mine': { ...STORED, version: 4 } },
      '/benchmarks/new?from=mine',
    )
    expect((await screen.findByLabelText<HTMLTextAreaElement>('Benchmark file')).value).toContain('model: squeezenet')
    await screen.findByText('2 jobs')
    await userEvent.click(screen.getByRole('button', { name: 'Save' }))
    await bodyOf(asked, '/api/v1/benchmarks/mine')
    expect(asked.find((one) => one.method === 'PUT')?.headers.get('if-match')).toBe('"3"')
  })

  it('says that there is none', async () => {
    show({ 'GET /api/v1/benchmarks/gone': 404 }, '/benchmarks/new?from=gone')
    expect(await screen.findByText('failed with 404')).toBeTruthy()
  })
})
