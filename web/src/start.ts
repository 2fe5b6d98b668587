import { PAGES, placeOf } from '@/pages/pages'

// The code of the page is fetched beside that of the frame around it, not after.
const below = window.location.pathname.slice(new URL(document.baseURI).pathname.length - 1)
const place = placeOf(below)
// The router reports a failure, and retries.
if (place !== undefined) PAGES[place]().catch(() => {})
void import('@/main')
