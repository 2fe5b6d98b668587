import type { Api } from '@/api/client'

/** A rule as a form holds it: texts, empty where nothing is set. */
export interface RuleForm {
  name: string
  benchmark: string
  when: When
  metric: string
  by: string
  value: string
  after: string
  severity: string
  quiet: string
  timezone: string
  at_most_every: string
  notify: string
}

export const WHENS = ['worse', 'above', 'below', 'failed', 'silent', 'agent-lost'] as const
export type When = (typeof WHENS)[number]
export const WHEN_WORDS: Record<When, string> = {
  worse: 'a series changes for the worse',
  above: 'a metric is above a limit',
  below: 'a metric is below a limit',
  failed: 'a job fails',
  silent: 'no result comes for a while',
  'agent-lost': 'an agent is lost',
}
type Field = 'metric' | 'by' | 'value' | 'after'
/** What each kind of rule asks for; the first ones are needed, the others may be left out. */
export const FIELDS: Record<When, { needed: readonly Field[]; free: readonly Field[] }> = {
  worse: { needed: [], free: ['metric', 'by'] },
  above: { needed: ['metric', 'value'], free: [] },
  below: { needed: ['metric', 'value'], free: [] },
  failed: { needed: [], free: [] },
  silent: { needed: ['after'], free: [] },
  'agent-lost': { needed: [], free: ['after'] },
}

export const NEW_RULE: RuleForm = {
  name: '',
  benchmark: '*',
  when: 'worse',
  metric: '',
  by: '',
  value: '',
  after: '',
  severity: 'warning',
  quiet: '',
  timezone: '',
  at_most_every: '',
  notify: '',
}

/** A kept rule in a form, to be changed. */
export function formOf(kept: Api<'RuleView'>): RuleForm {
  const { rule } = kept
  const text = (key: string) =>
    typeof rule[key] === 'string' || typeof rule[key] === 'number' ? String(rule[key]) : ''
  const by = typeof rule.by === 'number' ? `${Number((rule.by * 100).toPrecision(6))}%` : text('by')
  const seconds = (key: string) =>
    typeof rule[key] === 'number' ? (rule[key] === 0 ? '' : `${rule[key]}s`) : text(key)
  return {
    name: kept.name,
    benchmark: kept.benchmark,
    when: WHENS.find((one) => one === rule.when) ?? 'worse',
    metric: text('metric'),
    by,
    value: text('value'),
    after: seconds('after'),
    severity: text('severity') || 'warning',
    quiet: text('quiet'),
    timezone: text('timezone') === 'UTC' ? '' : text('timezone'),
    at_most_every: seconds('at_most_every'),
    notify: Array.isArray(rule.notify) ? rule.notify.map(String).join(', ') : '',
  }
}

/** The rule as the section `alerts` of a benchmark file would have it; what does not belong to its kind is left out. */
export function ruleOf(form: RuleForm): Record<string, unknown> {
  const { needed, free } = FIELDS[form.when]
  const rule: Record<string, unknown> = { when: form.when, severity: form.severity }
  for (const key of [...needed, ...free])
    if (form[key].trim()) rule[key] = key === 'value' ? Number(form.value) : form[key].trim()
  for (const key of ['quiet', 'at_most_every'] as const) if (form[key].trim()) rule[key] = form[key].trim()
  if (form.quiet.trim() && form.timezone.trim()) rule.timezone = form.timezone.trim()
  const channels = form.notify
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean)
  if (channels.length > 0) rule.notify = channels
  return rule
}
