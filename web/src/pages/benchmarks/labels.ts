/** Labels as they are typed: `team=vision commit=91bc02e`; null where one has no key or no value. */
export function labelsOf(text: string): Record<string, string> | null {
  const found: Record<string, string> = {}
  for (const part of text.split(/[\s,]+/).filter(Boolean)) {
    const at = part.indexOf('=')
    if (at < 1 || at === part.length - 1) return null
    found[part.slice(0, at)] = part.slice(at + 1)
  }
  return found
}
