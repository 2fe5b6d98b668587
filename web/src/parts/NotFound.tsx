import { Link } from '@tanstack/react-router'
import { Page } from '@/parts/Page'

export function NotFound() {
  return (
    <Page title="Nothing is here">
      <p>There is no page at this address. It may be mistyped, or the page was removed.</p>
      <p>
        <Link to="/">To the overview</Link>
      </p>
    </Page>
  )
}
