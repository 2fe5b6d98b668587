/** A job as the server tells it, small enough to read; only tests use this. */
const STATISTICS = {
  unit: 'ms',
  better: 'lower',
  count: 600,
  mean: 12.6,
  std: 0.4,
  median: 12.5,
  min: 11.9,
  max: 15.2,
  mad: 0.2,
  p50: 12.5,
  p90: 13.1,
  p95: 13.4,
  p99: 14.2,
  p99_9: null,
  interval: { low: 12.3, high: 12.7, level: 0.95, method: 'between runs' },
  runs: 2,
  run_values: { 0: 12.4, 1: 12.6 },
  outliers: [],
  outlier_count: 3,
  non_finite: 0,
}

function run(id: number, more: object = {}) {
  return {
    run_id: id,
    is_cold_start: id === 0,
    started_at: '',
    completed_at: '',
    duration_seconds: 12.5,
    phases: { load: 0.5, measure: 10 },
    metrics: {},
    absent: { energy_j: 'this machine has no counter' },
    sample_counts: { latency_ms: 300 },
    facts: {},
    device: { requested: 'cpu', used: 'cpu', nodes: {}, evidence: 'read from the profile' },
    window: null,
    samples: 'a'.repeat(64),
    error: null,
    files: {},
    seen: null,
    ...more,
  }
}

export const SUMMARY = {
  id: 'c1-job-0',
  campaign: 'c1',
  benchmark: 'squeeze',
  index: 0,
  label: 'batch=8',
  state: 'done',
  verdict: 'suspect',
  agent: 'agent-1',
  agent_name: 'pi-4',
  fence: 1,
  lost: 0,
  reason: '',
  progress: null,
  submitted_at: 1_700_000_000,
  started_at: 1_700_000_010,
  ended_at: 1_700_000_060,
  not_before: 0,
  point: { 'workload.batch': 8 },
}

export const RESULT = {
  job: 'c1-job-0',
  digest: 'd',
  index: 0,
  point: { 'workload.batch': 8 },
  state: 'done',
  verdict: 'suspect',
  checks: [
    { name: 'machine quiet', passed: false, detail: 'other programs used 18 % of the machine' },
    { name: 'turbo off or steady', passed: false, detail: 'turbo is on' },
    { name: 'enough samples', passed: true, detail: '600 samples' },
    { name: 'clocks not throttled', passed: null, detail: 'the system does not report it' },
  ],
  gates: [
    { name: 'latency_ms.p99', passed: true, detail: '14.2 ms; at most 20 was asked for' },
    { name: 'latency_ms.p99_9', passed: null, detail: 'needs 6000 samples' },
  ],
  metrics: { latency_ms: STATISTICS },
  runs: [run(0), run(1)],
  total_runs: 2,
  successful_runs: 2,
  failed_runs: 0,
  cold_start: { load_ms: 500 },
  environment: { machine: { name: 'pi-4', cpu: 'Cortex-A72', memory_bytes: 8_589_934_592 } },
  definition: { target: { model: 'files/0/squeezenet.onnx' }, workload: { batch: 8 } },
  started_at: null,
  completed_at: null,
  error: null,
}

export const FULL = {
  summary: SUMMARY,
  result: RESULT,
  document: {
    benchmark: 'squeeze',
    digest: 'd',
    index: 0,
    campaign: 'c1',
    labels: { team: 'vision' },
    git: {},
    point: { 'workload.batch': 8 },
    definition: {
      target: { model: 'models/squeezenet.onnx', device: 'cpu' },
      workload: { batch: 8, seed: 0 },
      measure: { runs: 5 },
    },
    files: { 'models/squeezenet.onnx': [{ name: 'squeezenet.onnx', sha256: 'b'.repeat(64), size_bytes: 5 }] },
  },
  attempts: [
    {
      job: 'c1-job-0',
      fence: 1,
      agent: 'agent-1',
      state: 'delivered',
      leased_at: 1_700_000_010,
      ended_at: 1_700_000_060,
    },
  ],
  history: [
    {
      id: 4,
      at: 1_700_000_010,
      campaign: 'c1',
      job: 'c1-job-0',
      kind: 'leased',
      detail: { agent: 'agent-1', name: 'pi-4', fence: 1 },
    },
  ],
  evidence: [],
  artefacts: [],
  reasons: [
    {
      severity: 'suspect',
      check: { name: 'machine quiet', passed: false, detail: 'other programs used 18 % of the machine' },
    },
    { severity: 'advice', check: { name: 'turbo off or steady', passed: false, detail: 'turbo is on' } },
  ],
}

export const HEADLINE = {
  items: [
    {
      job: 'c1-job-0',
      campaign: 'c1',
      metrics: {
        latency_ms: {
          unit: 'ms',
          better: 'lower',
          median: 12.5,
          interval: STATISTICS.interval,
          p99: 14.2,
          runs: 2,
          samples: 600,
        },
      },
    },
  ],
  next: null,
}

export const SESSION = { name: 'local', role: 'admin', open: true, version: '1' }

const SVG =
  '<svg class="chart" height="40" role="img"><title>latency</title><rect class="bar" x="0" width="10" height="4"></rect></svg>'
export const PANELS = {
  items: [
    {
      key: 'latency',
      group: 'latency',
      title: 'latency_ms, run by run',
      says: 'Each row is one run.',
      svg: SVG,
      columns: ['run', 'median'],
      rows: [[0, 12.4]],
      wide: false,
    },
  ],
  absent: { cold: 'no load was timed' },
}

/** Answers of a server that has this one job. */
export function answers(more: Record<string, unknown> = {}) {
  return {
    'GET /api/v1/session': SESSION,
    'GET /api/v1/jobs/c1-job-0': FULL,
    'GET /api/v1/results': HEADLINE,
    'GET /api/v1/jobs/c1-job-0/panels': PANELS,
    ...more,
  }
}
