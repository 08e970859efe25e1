/** Who is here: shows the pages to whoever may see them, and the sign-in to everybody else. */

import { useQuery } from '@tanstack/react-query'
import { Activity, type ReactNode, useEffect, useState } from 'react'
import { call } from '../api/client.ts'
import type { Session } from '../api/openapi.ts'
import { askWhoIsHere, useApi } from '../api/queries.ts'
import { SessionContext } from '../api/session.ts'
import { t } from '../text/text.ts'
import { Trouble } from '../ui/answer.tsx'
import { returned } from './returned.ts'
import { SignIn } from './sign-in.tsx'

/** Asked again now and then: a session ends after twelve hours, or with its key. */
const EVERY_MS = 60_000

export function Gate({ children }: { children: ReactNode }): ReactNode {
  const { data, isError } = useApi('GET /ojs/v1/session', {}, { every: EVERY_MS })
  const login = useLogin()
  const first = useFirst(data?.signed_in ? data : undefined)
  const isAnother = first !== undefined && data?.signed_in === true && data.name !== first.name
  // Nothing of the one before is left then, not even in the memory of the page.
  useEffect(() => {
    if (isAnother) window.location.reload()
  }, [isAnother])
  if (data === undefined || login.isLoading || isAnother) {
    return <main className="alone">{isError ? <Waiting /> : <p role="status">{t.loading}</p>}</main>
  }
  return (
    <>
      {!data.signed_in && <SignIn provider={data.provider} failure={login.data?.failure ?? null} />}
      {first !== undefined && (
        // What was being written is there again for the one who has signed in again.
        <Activity mode={data.signed_in ? 'visible' : 'hidden'}>
          <SessionContext value={data.signed_in ? data : first}>{children}</SessionContext>
        </Activity>
      )}
    </>
  )
}

/** The first that there was. */
function useFirst(session: Session | undefined): Session | undefined {
  const [first, setFirst] = useState(session)
  if (first === undefined && session !== undefined) setFirst(session)
  return first ?? session
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
