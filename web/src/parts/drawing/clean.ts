/** The elements and attributes that a drawing of the server may have; whatever else it holds does not reach the page. */
const SVG = 'http://www.w3.org/2000/svg'
const ELEMENTS = new Set([
  ...['svg', 'g', 'path', 'line', 'polyline', 'polygon', 'rect', 'circle', 'ellipse', 'text', 'tspan', 'title', 'desc'],
])
const ATTRIBUTES = new Set([
  ...['class', 'role', 'aria-hidden', 'aria-label', 'overflow', 'vector-effect', 'viewBox', 'preserveAspectRatio'],
  ...['width', 'height', 'x', 'y', 'x1', 'x2', 'y1', 'y2', 'cx', 'cy', 'r', 'rx', 'ry', 'dx', 'dy', 'd', 'points'],
  ...['transform', 'text-anchor'],
])

/** A drawing rebuilt from its text with only allowed content; null where the text is not a drawing. */
export function cleanDrawing(text: string): SVGSVGElement | null {
  // A document of DOMParser is inert: nothing in it runs or loads. Only copies of known parts leave it.
  const root = new DOMParser().parseFromString(text, 'text/html').body.firstElementChild
  const copy = root?.localName === 'svg' ? copied(root) : null
  return copy instanceof SVGSVGElement ? copy : null
}

function copied(from: Element): Element | null {
  // A link inside a drawing leads nowhere on this page: what it holds stays, as a group.
  const name = from.localName === 'a' ? 'g' : from.localName
  if (from.namespaceURI !== SVG || !ELEMENTS.has(name)) return null
  const made = document.createElementNS(SVG, name)
  for (const { name: key, value } of from.attributes) {
    if (ATTRIBUTES.has(key)) made.setAttribute(key, value)
  }
  for (const child of from.childNodes) {
    const next = child instanceof Element ? copied(child) : child.nodeType === Node.TEXT_NODE ? child.textContent : null
    if (next !== null) made.append(next)
  }
  return made
}
