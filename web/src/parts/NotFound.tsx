import { Link } from '@tanstack/react-router'
import { Page } from '@/parts/Page'

export function NotFound() {
  return (
    <Page title="Nothing is here">
      <p>The address leads to no page. It may have been typed wrongly, or what it showed was removed.</p>
      <p>
        <Link to="/">To the overview</Link>
      </p>
    </Page>
  )
}
