import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { setNonce } from 'get-nonce'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { queryClient } from '@/api/cache'
import { sessionQuery } from '@/api/queries/session'
import { nonce } from '@/app/base'
import { LiveUpdates } from '@/app/live'
import { router } from '@/app/router'
import { applyTheme } from '@/app/theme'
import { Toasts } from '@/parts/Toasts'
import '@/app/tokens.css'
import '@/app/page.css'

// Dialogs write a style element while they are open; the policy lets in only those that bear the page's number.
setNonce(nonce)
applyTheme()
// Who one is has to be known before anything is shown: asked while the code of the page is on its way.
void queryClient.prefetchQuery(sessionQuery())

const root = document.getElementById('root')
if (root === null) throw new Error('the page has no element with the id "root"')
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <Toasts>
        <LiveUpdates>
          <RouterProvider router={router} />
        </LiveUpdates>
      </Toasts>
    </QueryClientProvider>
  </StrictMode>,
)
