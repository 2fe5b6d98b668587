import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useRouterState } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { queryClient } from '@/api/cache'
import { ApiError } from '@/api/client'
import { overviewQuery, sessionQuery } from '@/api/queries/session'
import { useLiveness } from '@/app/live'
import { signOut, useToken } from '@/app/session'
import { SignInPage } from '@/pages/signin/SignInPage'
import { PageFailure } from '@/parts/Failure'
import { Loading } from '@/parts/Loading'

const PLACES = [
  ['/', 'Overview'],
  ['/benchmarks', 'Benchmarks'],
  ['/campaigns', 'Campaigns'],
  ['/compare', 'Compare'],
  ['/series', 'Series'],
  ['/fleet', 'Fleet'],
  ['/alerts', 'Alerts'],
  ['/schedules', 'Schedules'],
  ['/settings', 'Settings'],
] as const

/** What stands around every page: where one can go, who one is, and whether the page is live. */
export function Frame() {
  const session = useQuery(sessionQuery())
  if (session.error instanceof ApiError && session.error.status === 401) return <SignInPage />
  if (session.error)
    return (
      <main>
        <PageFailure error={session.error} again={() => void session.refetch()} />
      </main>
    )
  if (session.isPending)
    return (
      <main>
        <Loading what="the dashboard" />
      </main>
    )
  return (
    <div className="frame">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <Side />
      <Content />
    </div>
  )
}

function Content() {
  const path = useRouterState({ select: (state) => state.location.pathname })
  const main = useRef<HTMLElement>(null)
  const first = useRef(true)
  // Moving the focus announces the new page to a screen reader; the first page keeps the browser's own focus.
  useEffect(() => {
    if (!first.current && path) main.current?.focus({ preventScroll: true })
    first.current = false
  }, [path])
  return (
    <main id="main" ref={main} tabIndex={-1}>
      <Outlet />
    </main>
  )
}

function Side() {
  const overview = useQuery(overviewQuery())
  const open = overview.data?.alerts_open ?? 0
  return (
    <nav className="side" aria-label="Main">
      <Link to="/" className="brand">
        <img src="./icon.svg" width="22" height="22" alt="" /> assay
      </Link>
      <ul>
        {PLACES.map(([to, name]) => (
          <li key={to}>
            <Link
              to={to}
              activeOptions={{ exact: to === '/', includeSearch: false }}
              activeProps={{ 'aria-current': 'page' }}
            >
              {name}
              {to === '/alerts' && open > 0 && (
                <span className="number">
                  {open}
                  <span className="unseen"> open</span>
                </span>
              )}
            </Link>
          </li>
        ))}
      </ul>
      <Foot />
    </nav>
  )
}

const LIVENESS = { connecting: '○ connecting', live: '● live', polling: '◌ asking every 5 s' } as const

function Foot() {
  const session = useQuery(sessionQuery())
  const token = useToken()
  // What was shown to one who had a token is forgotten with it.
  const leave = () => {
    signOut()
    void queryClient.resetQueries()
  }
  return (
    <footer>
      <span role="status">{LIVENESS[useLiveness()]}</span>
      <span>{session.data?.open ? 'open on this machine' : `${session.data?.name} (${session.data?.role})`}</span>
      {token && (
        <button type="button" className="button plain" onClick={leave}>
          Sign out
        </button>
      )}
      <span>assay {session.data?.version}</span>
    </footer>
  )
}
