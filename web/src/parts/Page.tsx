import { type ReactNode, useEffect } from 'react'

interface PageProps {
  title: string
  /** What stands before the title: where one is. */
  crumbs?: ReactNode
  lead?: ReactNode
  actions?: ReactNode
  children: ReactNode
}

/** The head of every page and its content; the browser's tab bears the title. */
export function Page({ title, crumbs, lead, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · assay`
  }, [title])
  return (
    <>
      <header className="page-head">
        {crumbs && (
          <nav className="crumbs" aria-label="Where this is">
            {crumbs}
          </nav>
        )}
        <h1>{title}</h1>
        {actions && <div className="actions">{actions}</div>}
        {lead && <p className="lead">{lead}</p>}
      </header>
      {children}
    </>
  )
}
