/** Who is here: shows the pages to whoever may see them, and the sign-in to everybody else. */

import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { call } from '../api/client.ts'
import { askWhoIsHere, useApi } from '../api/queries.ts'
import { SessionContext } from '../api/session.ts'
import { t } from '../text/text.ts'
import { Trouble } from '../ui/answer.tsx'
import { returned } from './returned.ts'
import { SignIn } from './sign-in.tsx'

/** Asked again now and then: a session ends after twelve hours, or with its key. */
const EVERY_MS = 60_000

export function Gate({ children }: { children: ReactNode }): ReactNode {
  const session = useApi('GET /ojs/v1/session', {}, { every: EVERY_MS })
  const login = useLogin()
  if (session.data === undefined || login.isLoading) {
    return (
      <main className="alone">
        {session.isError ? <Waiting /> : <p role="status">{t.loading}</p>}
      </main>
    )
  }
  if (!session.data.signed_in)
    return <SignIn provider={session.data.provider} failure={login.data?.failure ?? null} />
  return <SessionContext value={session.data}>{children}</SessionContext>
}

/**
 * Ends the sign-in that the provider has led back from, once: what has failed is asked again now and then, so a
 * failure is an answer here.
 */
function useLogin() {
  return useQuery({
    queryKey: ['login'],
    enabled: returned !== null,
    staleTime: 'static',
    queryFn: async () => {
      try {
        await call('POST /ojs/v1/session', { body: { callback: returned ?? '' } })
      } catch (error) {
        return { failure: error instanceof Error ? error : new Error(String(error)) }
      }
      await askWhoIsHere()
      return { failure: null }
    },
  })
}

function Waiting(): ReactNode {
  useApi('GET /ojs/v1/session', {}, { every: 2_000 })
  return <Trouble error={new Error(`${t.errors.unreachable} ${t.errors.tryingAgain}`)} />
}
