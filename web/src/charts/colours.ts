/** The colours of the theme that is shown, as the charts need them: values, not names. */
export interface Colours {
  ink: string
  muted: string
  line: string
  grid: string
  surface: string
  raised: string
  accent: string
  accentSoft: string
  good: string
  warn: string
  bad: string
  unknown: string
  band: string
  series: string[]
}

export function colours(): Colours {
  const style = getComputedStyle(document.documentElement)
  const of = (name: string) => style.getPropertyValue(`--${name}`).trim()
  return {
    ink: of('ink'),
    muted: of('muted'),
    line: of('line'),
    grid: of('grid'),
    surface: of('surface'),
    raised: of('raised'),
    accent: of('accent'),
    accentSoft: of('accent-soft'),
    good: of('good'),
    warn: of('warn'),
    bad: of('bad'),
    unknown: of('unknown'),
    band: of('band'),
    series: [1, 2, 3, 4, 5, 6].map((one) => of(`series-${one}`)),
  }
}
