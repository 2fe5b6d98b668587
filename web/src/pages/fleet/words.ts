import type { Api } from '@/api/client'

export type Agent = Api<'AgentRecord'>

const STEPS = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

/** `16 GiB`; bytes that are not known are empty. */
export function bytes(count: number): string {
  if (!(count > 0)) return ''
  const step = Math.min(Math.floor(Math.log2(count) / 10), STEPS.length - 1)
  const value = count / 1024 ** step
  return `${value >= 10 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)} ${STEPS[step]}`
}

/** A fact that the machine reported about itself, as text. */
export function factOf(agent: Agent, name: string): string {
  const value = agent.device[name]
  if (value === undefined || value === null) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** What the machine is, on one line: `linux, 8 cores, 16 GiB, NVIDIA H200`. */
export function machineWords(agent: Agent): string {
  const { os, cpus, memory_bytes, gpus, gpu_model } = agent.profile
  const gpu = gpu_model ? `${(gpus ?? 0) > 1 ? `${gpus}\u00a0×\u00a0` : ''}${gpu_model}` : ''
  return [os, `${cpus} ${cpus === 1 ? 'core' : 'cores'}`, bytes(memory_bytes), gpu].filter(Boolean).join(', ')
}

/** Labels as `key=value`, those of the device itself and those given here. */
export function labelsOf(agent: Agent): string[] {
  return Object.entries({ ...agent.profile.labels, ...agent.labels }).map(([key, value]) => `${key}=${value}`)
}

/** The word that a filter knows an agent by: a draining agent is distinguished from one that takes jobs. */
export function stateOf(agent: Agent): string {
  return agent.draining && agent.state !== 'faulty' ? 'draining' : agent.state
}

export function fits(agent: Agent, state: string, text: string): boolean {
  const wish = text.trim().toLowerCase()
  const texts = [agent.name, agent.id, machineWords(agent), factOf(agent, 'cpu'), ...labelsOf(agent)]
    .join(' ')
    .toLowerCase()
  return (state === '' || stateOf(agent) === state) && texts.includes(wish)
}

/** A text of the server as a sentence: a capital first, a stop last. */
export function sentence(text: string): string {
  return text === '' ? '' : `${text[0]?.toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`
}
