/** Starts the console in its page. */
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { queries } from './api/queries.ts'
import { Gate } from './app/gate.tsx'
import { router } from './app/router.tsx'
import { applyTheme } from './app/theme.ts'
import { LANGUAGE } from './text/text.ts'
import 'uplot/dist/uPlot.min.css'
import './style/base.css'
import './style/parts.css'
import './style/pages.css'

applyTheme()
document.documentElement.lang = LANGUAGE

const root = document.getElementById('root')
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <Gate>
          <RouterProvider router={router} />
        </Gate>
      </QueryClientProvider>
    </StrictMode>,
  )
}
