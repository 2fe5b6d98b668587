import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { letterOf, partsOf, type Side } from '@/pages/compare/records'

interface SidesProps {
  sides: string[]
  /** What the server says about them, once it has. */
  known: Side[]
  onChange: (sides: string[]) => void
}

/** What is compared: the base first, then what is judged against it. */
export function Sides({ sides, known, onChange }: SidesProps) {
  return (
    <ol className="sides" aria-label="Sides">
      {sides.map((side, at) => (
        <li key={side} className="side-card">
          <p className="side-role">
            {letterOf(at)}
            {at === 0 && ', the base'}
          </p>
          <Named side={side} described={known.find((one) => one.key === side)} />
          <p className="actions">
            {at > 0 && (
              <button
                type="button"
                className="button plain"
                onClick={() => onChange([side, ...sides.filter((one) => one !== side)])}
              >
                Make it the base<span className="unseen">: {side}</span>
              </button>
            )}
            <button
              type="button"
              className="button plain"
              onClick={() => onChange(sides.filter((one) => one !== side))}
            >
              Remove<span className="unseen"> {side}</span>
            </button>
          </p>
        </li>
      ))}
    </ol>
  )
}

function Named({ side, described }: { side: string; described: Side | undefined }) {
  const parts = partsOf(side)
  return (
    <>
      <p className="side-name">
        <Target side={side}>{described?.name || parts?.name || side}</Target>
      </p>
      <p className="quiet">{described?.says ?? parts?.kind ?? 'not understood'}</p>
    </>
  )
}

/** A link to what a side names, where it has a page of its own. */
function Target({ side, children }: { side: string; children: ReactNode }) {
  const parts = partsOf(side)
  if (parts?.kind === 'campaign')
    return (
      <Link to="/campaigns/$campaign" params={{ campaign: parts.name }}>
        {children}
      </Link>
    )
  if (parts?.kind === 'job')
    return (
      <Link to="/jobs/$job" params={{ job: parts.name }}>
        {children}
      </Link>
    )
  if (parts?.kind === 'agent')
    return (
      <Link to="/fleet/$agent" params={{ agent: parts.name }}>
        {children}
      </Link>
    )
  return <>{children}</>
}
