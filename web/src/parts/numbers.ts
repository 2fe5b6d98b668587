/** Numbers as people read them: no more digits than the doubt allows. The same rules as assay's reports. */
export interface Doubt {
  low: number
  high: number
  level?: number
}

const SMALL_LEAD = 3.55
const WITHOUT_DOUBT = 4
const FEWEST = 2
const MOST = 6
const ROUND_FROM = 1e5

export function decimalsFor(value: number, halfWidth: number | null): number {
  if (!Number.isFinite(value)) return 0
  const leading = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)))
  const capped = (places: number) => (Math.abs(value) >= ROUND_FROM ? places : Math.max(places, 0))
  if (halfWidth === null || !Number.isFinite(halfWidth) || halfWidth <= 0) return capped(WITHOUT_DOUBT - 1 - leading)
  const power = Math.floor(Math.log10(halfWidth))
  const digits = halfWidth / 10 ** power < SMALL_LEAD ? 2 : 1
  return capped(Math.min(Math.max(digits - 1 - power, FEWEST - 1 - leading), MOST - 1 - leading))
}

export function show(value: number | null | undefined, decimals?: number): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–'
  const places = decimals ?? decimalsFor(value, null)
  const rounded =
    places < 0 ? Math.round(value * 10 ** places) / 10 ** places : Number(value.toFixed(Math.min(places, 20)))
  if (rounded === 0 && value !== 0) return value.toPrecision(2)
  if (Math.abs(rounded) >= 1e9 || places > 9) return value.toPrecision(4)
  const shown = Math.max(places, 0)
  return rounded.toLocaleString('en-US', { minimumFractionDigits: shown, maximumFractionDigits: shown })
}

export function halfWidth(doubt: Doubt | null | undefined): number | null {
  return doubt ? (doubt.high - doubt.low) / 2 : null
}

/** `+4.2 %`, `31 %`, `<0.1 %`. */
export function percent(share: number, signed = false): string {
  const value = share * 100
  const sign = value < 0 ? '-' : signed ? '+' : ''
  if (value !== 0 && Math.abs(value) < 0.05) return `${sign}<0.1 %`
  return `${sign}${Math.abs(value).toLocaleString('en-US', { minimumFractionDigits: Math.abs(value) < 9.95 ? 1 : 0, maximumFractionDigits: Math.abs(value) < 9.95 ? 1 : 0 })} %`
}
