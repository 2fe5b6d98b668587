import { screen, waitFor } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { describe, expect, it } from 'vitest'
import { answers, FULL, RESULT, SUMMARY } from '@/pages/job/fixtures'
import JobPage from '@/pages/job/JobPage'
import { answer, showPage } from '@/testing/page'

const line = (id: number, text: string, fence = 1) => ({ id, fence, at: 1_700_000_000 + id, text })
const show = (search = '?tab=log') => showPage(JobPage, '/jobs/$job', `/jobs/c1-job-0${search}`)
const LOGS = 'GET /api/v1/jobs/c1-job-0/logs'

describe('the log', () => {
  it('reads all pages, and text stays text', async () => {
    const pages = [
      { lines: [line(1, 'first <b>bold</b>')], next: 1, more: true },
      { lines: [line(2, 'second')], next: 2, more: false },
    ]
    const { asked } = answer(
      answers({ [LOGS]: (request: Request) => pages[new URL(request.url).searchParams.get('after') === '0' ? 0 : 1] }),
    )
    const { container } = show()
    expect(await screen.findByText('first <b>bold</b>')).toBeTruthy()
    expect(screen.getByText('second')).toBeTruthy()
    expect(container.querySelector('b')).toBeNull()
    expect(
      asked.filter((one) => one.url.includes('/logs')).map((one) => new URL(one.url).searchParams.get('after')),
    ).toEqual(['0', '1'])
  })

  it('asks only for what followed while the job runs', async () => {
    const summary = { ...SUMMARY, state: 'running', verdict: null, ended_at: null }
    const written = [line(1, 'begin')]
    const { asked } = answer(
      answers({
        'GET /api/v1/jobs/c1-job-0': { ...FULL, summary, result: { ...RESULT, state: 'running', runs: [] } },
        [LOGS]: (request: Request) => {
          const after = Number(new URL(request.url).searchParams.get('after'))
          return {
            lines: written.filter((one) => one.id > after),
            next: Math.max(after, ...written.map((one) => one.id)),
            more: false,
          }
        },
      }),
    )
    show()
    expect(await screen.findByText('begin')).toBeTruthy()
    written.push(line(2, 'and on'))
    expect(await screen.findByText('and on', {}, { timeout: 5000 })).toBeTruthy()
    expect(screen.getByText('begin')).toBeTruthy()
    expect(new URL(asked.findLast((one) => one.url.includes('/logs'))?.url ?? '').searchParams.get('after')).not.toBe(
      '0',
    )
  })

  it('finds lines, and keeps the search in the address', async () => {
    answer(answers({ [LOGS]: { lines: [line(1, 'warm-up'), line(2, 'measure')], next: 2, more: false } }))
    const { router } = show()
    await userEvent.type(await screen.findByLabelText('Find'), 'meas')
    await waitFor(() => expect(screen.queryByText('warm-up')).toBeNull())
    expect(screen.getByText('1 of 2 lines')).toBeTruthy()
    expect(router.state.location.search).toEqual({ tab: 'log', find: 'meas' })
  })

  it('says that nothing was written', async () => {
    answer(answers({ [LOGS]: { lines: [], next: 0, more: false } }))
    show()
    expect(await screen.findByText('The attempts wrote nothing.')).toBeTruthy()
  })

  it('says why it cannot be read', async () => {
    answer(answers({ [LOGS]: 503 }))
    show()
    expect((await screen.findByRole('alert')).textContent).toContain('failed with 503')
  })
})
