import { Ago } from '@/parts/Time'
import { isCounted } from '@/watching/words'

/** How long ago a result was; a time that is only counted as its number. */
export function When({ at }: { at: number | null | undefined }) {
  return typeof at === 'number' && isCounted(at) ? <span className="number">number {at}</span> : <Ago at={at} />
}
