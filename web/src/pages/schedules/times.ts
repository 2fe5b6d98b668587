/** When a schedule is due, in words where that is easy; else as it is written. */

const ALIASES: Record<string, string> = {
  '@hourly': '0 * * * *',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@weekly': '0 0 * * sun',
  '@monthly': '0 0 1 * *',
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
}
const DAYS: Record<string, string> = {
  '*': 'every day',
  'mon-fri': 'Monday to Friday',
  '1-5': 'Monday to Friday',
  'sat,sun': 'Saturday and Sunday',
  sun: 'every Sunday',
  '0': 'every Sunday',
  '7': 'every Sunday',
  mon: 'every Monday',
  '1': 'every Monday',
  tue: 'every Tuesday',
  '2': 'every Tuesday',
  wed: 'every Wednesday',
  '3': 'every Wednesday',
  thu: 'every Thursday',
  '4': 'every Thursday',
  fri: 'every Friday',
  '5': 'every Friday',
  sat: 'every Saturday',
  '6': 'every Saturday',
}

/** `0 3 * * mon-fri` is `Monday to Friday at 03:00`; null where only the fields themselves say it. */
export function cronWords(cron: string): string | null {
  const [minute = '', hour = '', day = '', month = '', weekday = '', more] = (
    ALIASES[cron.trim().toLowerCase()] ?? cron
  )
    .trim()
    .toLowerCase()
    .split(/\s+/)
  if (more !== undefined || month !== '*') return null
  const every = /^\*\/(\d+)$/.exec(minute)
  if (every && hour === '*' && day === '*' && weekday === '*') return `every ${every[1]} minutes`
  if (!isNumber(minute)) return null
  const days = daysIn(day, weekday)
  if (days === undefined) return null
  if (hour === '*')
    return days === 'every day' ? `every hour, ${minute === '0' ? 'on the hour' : `at minute ${minute}`}` : null
  return isNumber(hour) ? `${days} at ${hour.padStart(2, '0')}:${minute.padStart(2, '0')}` : null
}

function daysIn(day: string, weekday: string): string | undefined {
  if (day === '*') return DAYS[weekday]
  const listed = day.split(',')
  if (weekday !== '*' || !listed.every(isNumber)) return undefined
  return listed.length === 1
    ? `on day ${day} of every month`
    : `on the days ${listed.slice(0, -1).join(', ')} and ${listed.at(-1)} of every month`
}

function isNumber(text: string): boolean {
  return /^\d{1,2}$/.test(text)
}

export const PRESETS = [
  ['0 3 * * *', 'every night at 03:00'],
  ['0 3 * * mon-fri', 'Monday to Friday at 03:00'],
  ['@hourly', 'every hour'],
  ['*/15 * * * *', 'every 15 minutes'],
  ['0 3 * * sun', 'every Sunday at 03:00'],
  ['', 'something else'],
] as const

export const MISSED = [
  ['once', 'one run stands for all that were missed'],
  ['skip', 'they are left out'],
  ['all', 'each is made up for, the newest 24'],
] as const
export const OVERLAP = [
  ['skip', 'the new one is left out'],
  ['queue', 'the new one waits'],
  ['cancel', 'the new one ends the other'],
] as const

/** The section `schedule` of a benchmark file, in a form. */
export interface ScheduleForm {
  cron: string
  timezone: string
  jitter: string
  missed: string
  overlap: string
}

export function newForm(): ScheduleForm {
  return {
    cron: '0 3 * * *',
    timezone: Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC',
    jitter: '',
    missed: 'once',
    overlap: 'skip',
  }
}

/** What a benchmark file says already about its times. */
export function formOf(section: unknown): ScheduleForm {
  if (typeof section === 'string') return { ...newForm(), timezone: 'UTC', cron: section }
  if (typeof section !== 'object' || section === null) return newForm()
  const known = new Map(Object.entries(section))
  const text = (key: string, otherwise: string) => {
    const value = known.get(key)
    return typeof value === 'string' ? value : typeof value === 'number' && value > 0 ? `${value}s` : otherwise
  }
  return {
    cron: text('cron', ''),
    timezone: text('timezone', 'UTC'),
    jitter: text('jitter', ''),
    missed: text('missed', 'once'),
    overlap: text('overlap', 'skip'),
  }
}

export function sectionOf(form: ScheduleForm): Record<string, string> {
  const section = {
    cron: form.cron.trim(),
    timezone: form.timezone.trim() || 'UTC',
    missed: form.missed,
    overlap: form.overlap,
  }
  return form.jitter.trim() ? { ...section, jitter: form.jitter.trim() } : section
}

/** `2026-11-24T03:00:00+01:00` as people read it: `Tue 2026-11-24 03:00 +01:00`. */
export function localWords(local: string): string {
  const day = new Date(`${local.slice(0, 10)}T00:00:00Z`).toLocaleDateString('en', {
    weekday: 'short',
    timeZone: 'UTC',
  })
  return `${day} ${local.slice(0, 10)} ${local.slice(11, 16)} ${local.slice(19)}`.trim()
}
