/** Where the dashboard is served from: the path of <base>, which the server writes, without its last slash. */
export const basePath = new URL(document.baseURI).pathname.replace(/\/$/, '')

/** The nonce that lets the dashboard's style elements pass the Content-Security-Policy. */
export const nonce = document.querySelector('meta[name="csp-nonce"]')?.getAttribute('content') ?? ''

/** The address of something that the server has, such as a download: `address('/api/v1/…')`. */
export function address(path: string): string {
  return `${basePath}${path}`
}
