import type { Alert, KnownFinding, Point, SeriesRecord } from '@/watching/types'

/** Records for the tests of the pages of series, alerts and schedules. */

export const SESSION = { name: 'ada', role: 'admin', open: false, version: '0.1.0' }
export const READER = { ...SESSION, role: 'reader' }
const DAY = 86_400
export const START = 1_767_225_600 // 2026-01-01

export function series(change: Partial<SeriesRecord> = {}): SeriesRecord {
  return {
    id: '9c1f2ab34d5e6f70',
    benchmark: 'chat service',
    metric: 'ttft_ms.p99',
    unit: 'ms',
    better: 'lower',
    point: { 'load.rate': 4 },
    labels: { team: 'chat' },
    machine: { processor: 'Xeon 8468', cores: 32, memory_gib: 256, gpu: 'H100', gpus: 2, os: 'Linux' },
    origin: 'results',
    checked: 6,
    report: { kind: 'stepped', spread: 1, relative_spread: 0.021, findings: 1 },
    points: 6,
    newest: START + 5 * DAY,
    ...change,
  }
}

export function point(id: number, value: number | null, change: Partial<Point> = {}): Point {
  return {
    id,
    at: START + (id - 1) * DAY,
    value,
    standard_error: 0.5,
    verdict: 'valid',
    job: `c1-job-${id}`,
    context: { machine: 'gpu-01', driver: '550' },
    ...change,
  }
}

/** Three results at 100 ms, then three at 110 ms with another driver; the fifth failed. */
export function points(): Point[] {
  const later = { context: { machine: 'gpu-01', driver: '560' } }
  return [
    point(1, 100),
    point(2, 101),
    point(3, 99),
    point(4, 110, later),
    point(5, null, { ...later, verdict: 'failed', standard_error: null }),
    point(6, 110, later),
  ]
}

export function finding(
  change: Partial<KnownFinding> = {},
  inside: Partial<KnownFinding['finding']> = {},
): KnownFinding {
  const ends = { level: 0.95, method: 'likelihood of the step' }
  return {
    id: '0b7d3e5a91c2f468',
    series: series(),
    state: 'open',
    last_good: point(3, 99),
    first_bad: point(4, 110),
    found_at: START + 4 * DAY,
    finding: {
      kind: 'step',
      index: 3,
      last_good: 2,
      first_bad: 3,
      range: [3, 3],
      before: 100,
      after: 110,
      difference: 10,
      difference_interval: { low: 8, high: 12, ...ends },
      change: 0.1,
      interval: { low: 0.08, high: 0.12, ...ends },
      chance: 1e-6,
      probability: 0.999,
      direction: 'worse',
      answer: 'worse',
      because: [],
      last_good_label: null,
      first_bad_label: null,
      ...inside,
    },
    triage: {
      cause: 'environment',
      because: ['driver changed from 550 to 560, and at none of 2 other steps around'],
      differs: [{ name: 'driver', before: '550', after: '560', elsewhere: 0 }],
    },
    ...change,
  }
}

export function alert(change: Partial<Alert> = {}): Alert {
  const member = {
    subject: '0b7d3e5a91c2f468',
    name: 'chat service rate=4: ttft_ms.p99',
    state: 'standing' as const,
    at: START,
    event: 'open:0b7d',
    rule: '77aa',
    severity: 'warning' as const,
    benchmark: 'chat service',
    says: 'chat service rate=4: ttft_ms.p99: 100 ms → 110 ms, +10 % [+8.0 %, +12 %]',
    metric: 'ttft_ms.p99',
    unit: 'ms',
    series: '9c1f2ab34d5e6f70',
    finding: '0b7d3e5a91c2f468',
    job: 'c1-job-4',
    campaign: 'c1',
    agent: '',
    since: START,
    moved: null,
  }
  return {
    id: '5f0c1d2e3a4b5c6d',
    key: '9b1f',
    kind: 'finding',
    state: 'open',
    severity: 'warning',
    benchmark: 'chat service',
    title: 'chat service rate=4: ttft_ms.p99 is 10 % worse',
    sentences: [member.says, 'What may explain it: environment: driver 550 → 560.'],
    opened_at: START,
    changed_at: START,
    members: [member],
    cause: 'environment: driver 550 → 560',
    differs: [{ name: 'driver', before: '550', after: '560', elsewhere: 0 }],
    rules: [{ id: '77aa', name: 'slow first token', notify: [], quiet: null, timezone: 'UTC', at_most_every: 0 }],
    snoozed_until: null,
    by: '',
    history: [{ at: START, happening: 'occur', state: 'open', by: '', why: 'it is slower' }],
    links: {},
    telling: { turn: 1, news: 'opened', not_before: 0, told: {}, told_at: null, owed: false },
    findings: ['0b7d3e5a91c2f468'],
    ...change,
  }
}

/** A list of one page, as the API answers it. */
export function listed(...items: unknown[]): { items: unknown[]; next: null } {
  return { items, next: null }
}

export const HOSTILE = '<img src=x onerror=alert(1)>{a|b}'

/** The body of the newest request of that kind. */
export async function sent(asked: readonly Request[], method: string, path: string): Promise<unknown> {
  const found = asked.findLast((one) => one.method === method && new URL(one.url).pathname === path)
  return found === undefined ? undefined : JSON.parse(await found.clone().text())
}
