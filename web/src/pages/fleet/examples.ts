import type { Api } from '@/api/client'
import type { Agent } from '@/pages/fleet/words'

/** An agent as the server tells of it, for tests. */
export function agent(changes: Partial<Agent> = {}): Agent {
  return {
    id: 'agent-1',
    name: 'pi-4',
    state: 'active',
    healthy: true,
    draining: false,
    profile: {
      name: 'pi-4',
      os: 'linux',
      cpus: 4,
      memory_bytes: 8 * 2 ** 30,
      runtimes: { onnxruntime: '1.20' },
      devices: { onnxruntime: { cpu: 'CPUExecutionProvider' } },
      gpus: 0,
      gpu_model: '',
      gpu_memory_bytes: 0,
      labels: { arch: 'aarch64' },
      id: 'agent-1',
      commands: false,
      takes_jobs: true,
    },
    labels: { rack: 'quiet' },
    device: { cpu: 'Cortex-A72', kernel: '6.6' },
    jobs: [],
    slots: 1,
    address: '',
    version: '0.1.0',
    note: '',
    enrolled_at: 1_700_000_000,
    last_seen: 1_700_000_100,
    seconds_since_heartbeat: 3,
    ...changes,
  }
}

const interval = (low: number, high: number) => ({ low, high, level: 0.95, method: 'by hand' })

export function hardware(): Api<'AgentHardware'> {
  return {
    fitness: {
      at: 1_700_000_000,
      job: 'job-1',
      checks: [
        { name: 'quiet', passed: true, detail: 'nothing else ran' },
        { name: 'clocks', passed: false, detail: 'the clock fell by 12 %' },
        { name: 'heat', passed: null, detail: 'no sensor can be read' },
      ],
    },
    noise: { score: 1.2, unit: '%', says: 'Runs differ by 1.2 % in the middle.', at: 1_700_000_000, results: 12 },
    bench: [
      {
        job: 'job-2',
        at: 1_700_000_000,
        device: 'cpu',
        verdict: 'valid',
        items: [
          {
            test: 'memory_copy',
            precision: null,
            value: 5.2,
            unit: 'GB/s',
            interval: interval(5, 5.4),
            better: 'higher',
          },
          { test: 'matmul', precision: 'fp32', value: 0.03, unit: 'TFLOPS', interval: null, better: 'higher' },
        ],
      },
    ],
    absent: {},
  }
}
