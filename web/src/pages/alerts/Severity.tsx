import { Mark, type Tone } from '@/parts/Mark'

const TONES: Record<string, [Tone, string]> = { info: ['unknown', 'i'], warning: ['warn', '!'], critical: ['bad', '‼'] }

/** How bad an alert is. */
export function Severity({ severity }: { severity: string }) {
  const [tone, glyph] = TONES[severity] ?? (['unknown', '?'] as const)
  return <Mark tone={tone} glyph={glyph} word={severity} />
}
