import { screen, waitFor, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { describe, expect, it } from 'vitest'
import { answers, FULL, RESULT, SUMMARY } from '@/pages/job/fixtures'
import JobPage from '@/pages/job/JobPage'
import { answer, showPage } from '@/testing/page'

const show = (search = '') => showPage(JobPage, '/jobs/$job', `/jobs/c1-job-0${search}`)

describe('the judgement', () => {
  it('stands first, in plain words, with the number and its interval', async () => {
    answer(answers())
    show()
    expect(await screen.findByRole('heading', { level: 1, name: 'squeeze: batch=8' })).toBeTruthy()
    const card = screen.getByRole('region', { name: 'Verdict' })
    expect(card.querySelector('.verdict-line')?.textContent).toContain('suspect')
    expect(within(card).getByText(/at least one check gives a reason to doubt/)).toBeTruthy()
    expect(within(card).getByText(/other programs used 18 %/)).toBeTruthy()
    expect(await within(card).findByText('[12.30, 12.70]')).toBeTruthy()
    expect(within(card).getByText('lower is better')).toBeTruthy()
  })

  it('tells three answers of objectives and checks apart', async () => {
    answer(answers())
    show()
    const met = await screen.findByText('latency_ms.p99')
    expect(met.closest('li')?.textContent).toContain('met')
    expect(screen.getByText('latency_ms.p99_9').closest('li')?.textContent).toContain('cannot tell')
    expect(screen.getByText('1 checks passed, 1 unknown')).toBeTruthy()
    expect(screen.getByText('machine quiet').closest('li')?.textContent).toContain('suspect')
    expect(screen.getByText('turbo off or steady').closest('li')?.textContent).toContain('advice')
  })

  it('says why there are no numbers, what to do, and the last lines', async () => {
    const error = {
      code: 'out-of-memory',
      message: 'the kernel ended it',
      phase: 'load',
      exit_code: null,
      signal: 'SIGKILL',
      memory_mb: 812,
      log_tail: ['loading\u001b[31m red'],
      try_: 'use a smaller batch',
    }
    const full = {
      ...FULL,
      summary: { ...SUMMARY, state: 'failed', verdict: 'invalid' },
      result: { ...RESULT, state: 'failed', verdict: 'invalid', error, metrics: {}, runs: [] },
    }
    answer(
      answers({
        'GET /api/v1/jobs/c1-job-0': full,
        'GET /api/v1/jobs/c1-job-0/logs': { lines: [], next: 0, more: false },
      }),
    )
    show()
    expect(await screen.findByText('the kernel ended it')).toBeTruthy()
    expect(screen.getByText('error out-of-memory, while loading, signal SIGKILL, memory 812 MB')).toBeTruthy()
    expect(screen.getByText('Try: use a smaller batch')).toBeTruthy()
    expect(screen.getByText('loading red')).toBeTruthy()
    expect(screen.getByRole('tab', { name: 'Log' }).getAttribute('aria-selected')).toBe('true')
  })

  it('shows how far a running job is', async () => {
    const summary = {
      ...SUMMARY,
      state: 'running',
      verdict: null,
      ended_at: null,
      progress: { run: 1, runs: 5, phase: 'measure', share: 0.32, note: '' },
    }
    answer(
      answers({
        'GET /api/v1/jobs/c1-job-0': {
          ...FULL,
          summary,
          result: { ...RESULT, state: 'running', verdict: null, runs: [] },
        },
        'GET /api/v1/jobs/c1-job-0/logs': { lines: [], next: 0, more: false },
      }),
    )
    show()
    expect(await screen.findByText(/run 2 of 5, measure/)).toBeTruthy()
    expect(screen.getByRole('progressbar').getAttribute('aria-valuenow')).toBe('20')
    expect(screen.getByText('measure').getAttribute('aria-current')).toBe('step')
  })

  it('says what a waiting job lacks', async () => {
    const summary = { ...SUMMARY, state: 'pending', verdict: null, ended_at: null, started_at: null, agent_name: null }
    const placement = { placeable: false, says: '1 job cannot be placed (cuda): no agent is enrolled', groups: [] }
    answer(
      answers({
        'GET /api/v1/jobs/c1-job-0': {
          ...FULL,
          summary,
          attempts: [],
          result: { ...RESULT, state: 'pending', verdict: null, runs: [] },
        },
        'GET /api/v1/jobs/c1-job-0/logs': { lines: [], next: 0, more: false },
        'GET /api/v1/campaigns/c1/placement': placement,
      }),
    )
    show()
    expect(await screen.findByText(/no agent is enrolled/)).toBeTruthy()
  })

  it('says before all else that demo data was not measured', async () => {
    const environment = { simulated: 'demo data: nothing of this was measured' }
    answer(answers({ 'GET /api/v1/jobs/c1-job-0': { ...FULL, result: { ...RESULT, environment } } }))
    show()
    expect(await screen.findByText('demo data: nothing of this was measured')).toBeTruthy()
  })
})

describe('the page', () => {
  it('says that there is no such job', async () => {
    answer({ 'GET /api/v1/jobs/c1-job-0': 404 })
    show()
    expect((await screen.findByRole('alert')).textContent).toContain('failed with 404')
    expect(screen.getByRole('heading', { level: 1 }).textContent).toBe('Job')
  })

  it('keeps the chosen tab in the address, and goes back', async () => {
    answer(answers())
    const { router } = show()
    await userEvent.click(await screen.findByRole('tab', { name: 'Numbers and runs' }))
    expect(await screen.findByRole('region', { name: 'Every run' })).toBeTruthy()
    expect(router.state.location.search).toEqual({ tab: 'numbers' })
    router.history.back()
    await waitFor(() =>
      expect(screen.getByRole('tab', { name: 'Pictures' }).getAttribute('aria-selected')).toBe('true'),
    )
  })

  it('draws the pictures of the server and says what is not drawn', async () => {
    answer(answers())
    show()
    expect(await screen.findByRole('heading', { name: 'latency_ms, run by run' })).toBeTruthy()
    expect(screen.getByText(/no load was timed/)).toBeTruthy()
  })

  it('keeps markup in names a text', async () => {
    const evil = '<img src=x onerror="alert(1)">'
    answer(
      answers({ 'GET /api/v1/jobs/c1-job-0': { ...FULL, summary: { ...SUMMARY, label: evil, agent_name: evil } } }),
    )
    const { container } = show()
    expect(await screen.findByRole('heading', { level: 1, name: `squeeze: ${evil}` })).toBeTruthy()
    expect(container.querySelector('img')).toBeNull()
  })
})

describe('the numbers', () => {
  it('have every metric, dashes where a tail is not backed, and why something was not measured', async () => {
    answer(answers())
    show('?tab=numbers')
    const table = await screen.findByRole('region', { name: 'Every metric' })
    const cells = within(table)
      .getAllByRole('cell')
      .map((one) => one.textContent)
    expect(cells[0]).toBe('latency_ms')
    expect(cells[2]).toBe('±1.6 %')
    expect(cells[9]).toBe('–')
    expect(screen.getByText(/this machine has no counter/)).toBeTruthy()
  })

  it('lead to the samples of each run', async () => {
    answer(answers())
    show('?tab=numbers')
    const link = await screen.findByRole('link', { name: /300 as Parquet.*samples of run 2/ })
    expect(link.getAttribute('href')).toBe('/api/v1/jobs/c1-job-0/runs/1/samples')
  })
})

describe('what can be done', () => {
  it('submits this job alone, with its own file names, for the same machine', async () => {
    const submitted = {
      id: 'c2',
      benchmark: 'squeeze',
      state: 'running',
      jobs: 1,
      placement: { placeable: true, says: '', groups: [] },
      schedule: null,
    }
    const { asked } = answer(answers({ 'POST /api/v1/campaigns': submitted }))
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'Run again' }))
    await userEvent.click(within(await screen.findByRole('dialog')).getByRole('button', { name: 'Run again' }))
    await waitFor(() => expect(asked.some((one) => one.method === 'POST')).toBe(true))
    const sent = await asked.find((one) => one.method === 'POST')?.json()
    expect(sent.document).toEqual({
      benchmark: 'squeeze',
      target: { model: 'models/squeezenet.onnx' },
      workload: { batch: 8 },
    })
    expect(sent.agent).toBe('pi-4')
    expect(Object.keys(sent.files)).toEqual(['models/squeezenet.onnx'])
  })

  it('says in the dialog why it was refused', async () => {
    answer(answers({ 'POST /api/v1/campaigns/c1/resubmit': 409 }))
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'Run again' }))
    const dialog = await screen.findByRole('dialog')
    await userEvent.click(within(dialog).getByRole('radio', { name: /whole campaign/ }))
    await userEvent.click(within(dialog).getByRole('button', { name: 'Run again' }))
    expect((await within(dialog).findByRole('alert')).textContent).toContain('failed with 409')
  })

  it('offers a failed job again', async () => {
    const full = { ...FULL, summary: { ...SUMMARY, state: 'failed' }, result: { ...RESULT, state: 'failed', runs: [] } }
    const { asked } = answer(
      answers({
        'GET /api/v1/jobs/c1-job-0': full,
        'POST /api/v1/jobs/c1-job-0/retry': { job: 'c1-job-0', state: 'pending' },
        'GET /api/v1/jobs/c1-job-0/logs': { lines: [], next: 0, more: false },
      }),
    )
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'Run again' }))
    await waitFor(() => expect(asked.some((one) => one.method === 'POST' && one.url.endsWith('/retry'))).toBe(true))
  })

  it('is nothing for a reader', async () => {
    answer(answers({ 'GET /api/v1/session': { name: 'ann', role: 'reader', open: false, version: '1' } }))
    show()
    await screen.findByRole('region', { name: 'Verdict' })
    expect(await screen.findByRole('link', { name: 'Compare' })).toBeTruthy()
    expect(screen.queryByRole('button', { name: 'Run again' })).toBeNull()
  })
})
