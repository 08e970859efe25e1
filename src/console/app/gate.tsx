/** Who is here: shows the pages to whoever may see them, and the sign-in to everybody else. */
import type { ReactNode } from 'react'
import { useApi } from '../api/queries.ts'
import { SessionContext } from '../api/session.ts'
import { t } from '../text/text.ts'
import { Trouble } from '../ui/answer.tsx'
import { SignIn } from './sign-in.tsx'

/** Asked again now and then: a session ends after twelve hours, or with its key. */
const EVERY_MS = 60_000

export function Gate({ children }: { children: ReactNode }): ReactNode {
  const session = useApi('GET /ojs/v1/session', {}, { every: EVERY_MS })
  if (session.data === undefined) {
    return (
      <main className="alone">
        {session.isError ? <Waiting /> : <p role="status">{t.loading}</p>}
      </main>
    )
  }
  if (!session.data.signed_in) return <SignIn />
  return <SessionContext value={session.data}>{children}</SessionContext>
}

function Waiting(): ReactNode {
  useApi('GET /ojs/v1/session', {}, { every: 2_000 })
  return <Trouble error={new Error(t.errors.unreachable)} />
}
