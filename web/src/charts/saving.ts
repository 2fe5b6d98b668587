export interface Rows {
  columns: string[]
  rows: (string | number | null)[][]
}

/** Rows as CSV; a text that a spreadsheet would take for a formula is kept a text. */
export function toCsv({ columns, rows }: Rows): string {
  const cell = (value: string | number | null) => {
    if (value === null) return ''
    if (typeof value === 'number') return String(value)
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  }
  return [columns, ...rows].map((row) => row.map(cell).join(',')).join('\r\n')
}

/** Hand a file to the user: `content` is a data URL for pictures, text for CSV. */
export function save(title: string, type: 'png' | 'svg' | 'csv', content: string): void {
  const name =
    title
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')
      .replaceAll(/^-|-$/g, '') || 'chart'
  const url = type === 'csv' ? URL.createObjectURL(new Blob([content], { type: 'text/csv' })) : content
  const link = document.createElement('a')
  link.href = url
  link.download = `${name}.${type}`
  link.click()
  if (type === 'csv') URL.revokeObjectURL(url)
}
