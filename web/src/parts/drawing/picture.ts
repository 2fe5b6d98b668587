/** A drawing as a file of its own: colours and letters written into it, as a picture has no style sheet. */
const SVG = 'http://www.w3.org/2000/svg'
const WRITTEN = [
  ...['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linecap', 'stroke-linejoin'],
  ...['opacity', 'paint-order', 'text-anchor', 'font-size', 'font-weight'],
]
const LETTERS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
const SHARPNESS = 2

export interface Picture {
  text: string
  width: number
  height: number
}

/** What is drawn on the page now, with its colours, on a background. */
export function pictureOf(drawn: SVGSVGElement, background: string): Picture {
  const style = getComputedStyle(drawn)
  const side = (name: string) => Number.parseFloat(style.getPropertyValue(`margin-${name}`)) || 0
  const { width: inner, height: tall } = drawn.getBoundingClientRect()
  const [width, height] = [inner + side('left') + side('right'), tall + side('top') + side('bottom')]
  const copy = written(drawn)
  for (const [name, value] of Object.entries({ x: side('left'), y: side('top'), width: inner, height: tall })) {
    copy.setAttribute(name, String(value))
  }
  copy.setAttribute('overflow', 'visible')
  const page = document.createElementNS(SVG, 'svg')
  const ground = document.createElementNS(SVG, 'rect')
  for (const [name, value] of Object.entries({ width: '100%', height: '100%', fill: background })) {
    ground.setAttribute(name, value)
  }
  for (const [name, value] of Object.entries({
    width: String(width),
    height: String(height),
    'font-family': LETTERS,
  })) {
    page.setAttribute(name, value)
  }
  page.append(ground, copy)
  return { text: new XMLSerializer().serializeToString(page), width, height }
}

/** The same as the address of an SVG file. */
export function svgAddress(picture: Picture): string {
  return `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture.text)}`
}

/** The same as the address of a PNG file. */
export async function pngAddress(picture: Picture): Promise<string> {
  const image = new Image()
  image.src = svgAddress(picture)
  await image.decode()
  const canvas = document.createElement('canvas')
  canvas.width = Math.round(picture.width * SHARPNESS)
  canvas.height = Math.round(picture.height * SHARPNESS)
  canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height)
  return canvas.toDataURL('image/png')
}

function written(from: SVGElement): SVGElement {
  const made = from.cloneNode(false)
  if (!(made instanceof SVGElement)) return from
  const style = getComputedStyle(from)
  for (const name of WRITTEN) {
    const value = style.getPropertyValue(name)
    if (value) made.setAttribute(name, value)
  }
  made.removeAttribute('class')
  for (const child of from.childNodes) {
    made.append(child instanceof SVGElement ? written(child) : child.cloneNode(true))
  }
  return made
}
