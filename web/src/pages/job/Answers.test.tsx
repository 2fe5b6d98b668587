import { screen, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { describe, expect, it } from 'vitest'
import { answers, FULL, RESULT } from '@/pages/job/fixtures'
import JobPage from '@/pages/job/JobPage'
import { answer, showPage } from '@/testing/page'

const EVIL = '<script>alert(1)</script>'

function output(sample: number, more: object) {
  return {
    run: 0,
    sample,
    item: 'kitchen',
    session: 0,
    turn: sample,
    prompt: 'How do I boil an egg?',
    output: 'Eight minutes.',
    expected: 'About eight minutes.',
    scores: { rouge_l: 0.5 },
    outcome: 'ok',
    error: null,
    ttft_ms: 120.5,
    e2e_ms: 900,
    input_tokens: 12,
    output_tokens: 40,
    more: { finish_reason: 'stop' },
    ...more,
  }
}

const OUTPUTS = [
  output(0, {}),
  output(1, {
    prompt: `And soft? ${EVIL}`,
    output: '',
    outcome: 'timeout',
    error: 'no byte came in 30 s',
    scores: {},
    ttft_ms: null,
    e2e_ms: null,
    expected: null,
  }),
]
const runs = RESULT.runs.map((one) => ({ ...one, files: { 'outputs.jsonl.gz': 'c'.repeat(64) } }))
const served = {
  ...FULL,
  result: { ...RESULT, runs, definition: { target: { endpoint: 'http://llm', api: 'openai-chat' } } },
}
const page = {
  'GET /api/v1/jobs/c1-job-0': served,
  'GET /api/v1/jobs/c1-job-0/outputs': { items: OUTPUTS, next: null },
  'GET /api/v1/jobs/c1-job-0/scores': { items: [], next: null },
}
const show = (search = '?tab=answers') => showPage(JobPage, '/jobs/$job', `/jobs/c1-job-0${search}`)

describe('kept answers', () => {
  it('are listed with times, scores and outcomes', async () => {
    answer(answers(page))
    show()
    const table = await screen.findByRole('region', { name: 'List of answers' })
    expect(within(table).getByText('How do I boil an egg?')).toBeTruthy()
    expect(within(table).getByText('120.5')).toBeTruthy()
    expect(within(table).getByText('timeout')).toBeTruthy()
    expect(within(table).getByText('rouge_l')).toBeTruthy()
  })

  it('show a whole conversation, and what is not there says why', async () => {
    answer(answers(page))
    const { router, container } = show()
    await userEvent.click(await screen.findByRole('button', { name: `And soft? ${EVIL}` }))
    const one = await screen.findByRole('region', { name: 'Answer 1 of run 1' })
    expect(router.state.location.search).toEqual({ tab: 'answers', answer: '0-1' })
    expect(within(one).getByText('Turn 2, which was chosen')).toBeTruthy()
    expect(within(one).getByText('no byte came in 30 s')).toBeTruthy()
    expect(within(one).getByText('About eight minutes.')).toBeTruthy()
    expect(container.querySelector('script')).toBeNull()
  })

  it('explains how to keep answers where none were kept', async () => {
    answer(answers({ 'GET /api/v1/jobs/c1-job-0': { ...served, result: { ...served.result, runs: RESULT.runs } } }))
    show()
    expect(await screen.findByText('No answers were kept.')).toBeTruthy()
  })

  it('say why they cannot be read', async () => {
    answer(answers({ ...page, 'GET /api/v1/jobs/c1-job-0/outputs': 500 }))
    show()
    expect((await screen.findByRole('alert')).textContent).toContain('failed with 500')
  })
})
