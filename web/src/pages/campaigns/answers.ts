/** Answers of the server for tests. */
import type { Api } from '@/api/client'

export const SESSION = { name: 'ada', role: 'user', open: false, version: '0.1.0' }
export const READER = { ...SESSION, role: 'reader' }

export function campaign(change: Partial<Api<'CampaignSummary'>> = {}): Api<'CampaignSummary'> {
  return {
    id: 'c1',
    benchmark: 'image classifier',
    state: 'done',
    created_at: '2026-11-16T03:30:00+00:00',
    completed_at: '2026-11-16T03:41:26+00:00',
    jobs: 4,
    jobs_ended: 4,
    labels: { team: 'vision' },
    counts: { done: 4 },
    engine: 'fleet',
    priority: 0,
    submitted_by: 'ada',
    deadline: null,
    unplaceable: 'wait',
    spread: 'any',
    origin: '',
    version: 1,
    verdicts: {},
    ...change,
  }
}

export function job(change: Partial<Api<'JobSummary'>> = {}): Api<'JobSummary'> {
  return {
    id: 'c1-job-0',
    campaign: 'c1',
    benchmark: 'image classifier',
    index: 0,
    label: 'batch=1 threads=1',
    state: 'done',
    verdict: 'valid',
    agent: 'a1',
    agent_name: 'rack-7',
    fence: 1,
    lost: 0,
    reason: '',
    progress: null,
    submitted_at: 1_794_800_000,
    started_at: 1_794_800_010,
    ended_at: 1_794_800_070,
    not_before: 0,
    point: { 'workload.batch': 1, 'target.threads': 1 },
    ...change,
  }
}

export function result(change: Partial<Api<'ResultView'>> = {}): Api<'ResultView'> {
  return {
    job: 'c1-job-0',
    campaign: 'c1',
    benchmark: 'image classifier',
    index: 0,
    label: 'batch=1 threads=1',
    state: 'done',
    verdict: 'valid',
    machine: 'rack-7',
    agent: 'a1',
    ended_at: 1_794_800_070,
    point: {},
    doubts: [],
    metrics: {
      latency_ms: {
        unit: 'ms',
        better: 'lower',
        median: 21.13,
        interval: { low: 20.97, high: 21.3, level: 0.95, method: 'spread between runs' },
        p99: null,
        runs: 5,
        samples: 500,
      },
    },
    ...change,
  }
}
