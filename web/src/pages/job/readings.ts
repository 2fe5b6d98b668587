import type { Api } from '@/api/client'

type Seen = Api<'MachineTelemetry'>

/** One series over the measured windows of all runs. */
export interface Figure {
  series: string
  whose: string
  what: string
  unit: string
  /** Of the runs' means. */
  mean: number
  low: number
  high: number
  runs: number
}

const WHOSE: Record<string, string> = {
  job: 'the job',
  others: 'other programs',
  machine: 'the machine',
  cpu: 'the processor',
  own: 'assay itself',
}
/** The end of a name that is its unit, how people write it, and by what its values are divided. */
const UNITS: [string, string, number][] = [
  ['_bytes_per_s', 'MB/s', 1e6],
  ['_bytes', 'MB', 1e6],
  ['_per_s', '1/s', 1],
  ['_pct', '%', 1],
  ['_mhz', 'MHz', 1],
  ['_ms', 'ms', 1],
  ['_w', 'W', 1],
  ['_c', '°C', 1],
]
// Counters and codes: their mean says nothing.
const NO_MEAN = ['energy_j', 'throttle_bits', 'cpu_s']

/** Every series of the telemetry, over all runs. */
export function figuresOf(seen: Seen[]): Figure[] {
  const names = [...new Set(seen.flatMap((one) => Object.keys(one.statistics ?? {})))]
  return names.flatMap((series) => {
    const statistics = seen.map((one) => one.statistics?.[series] ?? {})
    const values = (key: string) => statistics.flatMap(({ [key]: value }) => value ?? [])
    const [means, lows, highs] = [values('mean'), values('min'), values('max')]
    const { whose, what, unit, divisor } = wordsOf(series)
    if (means.length === 0 || NO_MEAN.some((one) => series.endsWith(`.${one}`))) return []
    const mean = means.reduce((sum, one) => sum + one, 0) / means.length
    const figure = { mean: mean / divisor, low: Math.min(...lows) / divisor, high: Math.max(...highs) / divisor }
    return [{ series, whose, what, unit, ...figure, runs: means.length }]
  })
}

function wordsOf(series: string): { whose: string; what: string; unit: string; divisor: number } {
  const dot = series.lastIndexOf('.')
  const [source, name] = [series.slice(0, Math.max(dot, 0)), series.slice(dot + 1)]
  const [ending, unit, divisor] = UNITS.find(([end]) => name.endsWith(end)) ?? ['', '', 1]
  const what = name
    .slice(0, name.length - ending.length)
    .replaceAll('_', ' ')
    .replace('rss', 'memory')
  return { whose: WHOSE[source] ?? source, what, unit, divisor }
}

/** What a run had to suffer, one sentence each. */
export function sentencesOf(run: number, seen: Seen): string[] {
  const held = Object.entries(seen.throttled ?? {}).filter(([, why]) => why.length > 0)
  const others = Object.entries(seen.foreign ?? {}).filter(([, who]) => who.length > 0)
  return [
    ...held.map(([device, why]) => `Run ${run + 1}: ${device} held its clocks down: ${why.join(', ')}.`),
    ...others.map(([device, who]) => `Run ${run + 1}: ${who.join(', ')} also computed on ${device}.`),
  ]
}
