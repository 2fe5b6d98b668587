import { useEffect, useState } from 'react'

const STEPS: [number, Intl.RelativeTimeFormatUnit][] = [
  [60, 'second'],
  [3600, 'minute'],
  [86_400, 'hour'],
  [86_400 * 30, 'day'],
  [86_400 * 365, 'month'],
  [Number.POSITIVE_INFINITY, 'year'],
]
const SIZES: Partial<Record<Intl.RelativeTimeFormatUnit, number>> = {
  second: 1,
  minute: 60,
  hour: 3600,
  day: 86_400,
  month: 86_400 * 30,
  year: 86_400 * 365,
}
const words = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })

/** A moment, as seconds since 1970 or an ISO string. */
export function secondsOf(at: number | string): number {
  return typeof at === 'number' ? at : Date.parse(at) / 1000
}

export function relative(at: number, now: number): string {
  // Clocks differ, and ours ticks four times a minute: what is a moment ahead is now.
  const away = at > now && at - now < 15 ? 0 : at - now
  const [, unit] = STEPS.find(([limit]) => Math.abs(away) < limit) ?? [0, 'year' as const]
  return words.format(Math.round(away / (SIZES[unit] ?? 1)), unit)
}

/** How long ago, with the full date as its title. */
export function Ago({ at }: { at: number | string | null | undefined }) {
  const [now, setNow] = useState(() => Date.now() / 1000)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 15_000)
    return () => clearInterval(timer)
  }, [])
  if (at === null || at === undefined) return <span className="quiet">–</span>
  const seconds = secondsOf(at)
  const date = new Date(seconds * 1000)
  return (
    <time dateTime={date.toISOString()} title={whole.format(date)} className="nowrap">
      {relative(seconds, now)}
    </time>
  )
}

/** The time now, in seconds since 1970, every second while it ticks. */
export function useNow(ticks: boolean): number {
  const [now, setNow] = useState(() => Date.now() / 1000)
  useEffect(() => {
    if (!ticks) return
    const timer = setInterval(() => setNow(Date.now() / 1000), 1_000)
    return () => clearInterval(timer)
  }, [ticks])
  return now
}

/** A length of time in the unit that suits it. */
export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`
  if (seconds < 60) return `${seconds.toFixed(1)} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`
}
