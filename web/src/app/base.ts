/** Where the dashboard is served from: the path of <base>, which the server writes, without its last slash. */
export const basePath = new URL(document.baseURI).pathname.replace(/\/$/, '')

/** The number that lets a style element of ours pass the page's Content-Security-Policy. */
export const nonce = document.querySelector('meta[name="csp-nonce"]')?.getAttribute('content') ?? ''

/** The address of something that the server has, such as a download: `address('/api/v1/…')`. */
export function address(path: string): string {
  return `${basePath}${path}`
}
