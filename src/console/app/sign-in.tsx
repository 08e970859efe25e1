/** Asks for an API key, which becomes a session (the page never keeps the key), or leads to the provider. */
import { useMutation } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, useState } from 'react'
import { call } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { t } from '../text/text.ts'
import { Trouble } from '../ui/answer.tsx'
import icon from '../ui/icon.svg'
import { leave } from './returned.ts'

interface Props {
  /** Absent: with a key only. */
  provider: string | undefined
  /** Why the provider's word has not become a session. */
  failure: Error | null
}

export function SignIn({ provider, failure }: Props): ReactNode {
  return (
    <main className="alone">
      <div className="card sign-in">
        <h1>
          <img src={icon} alt="" width="28" height="28" /> ojs-rabbitmq
        </h1>
        {failure !== null && <Trouble error={failure} />}
        {provider !== undefined && <ByProvider host={provider} />}
        <ByKey isFirst={provider === undefined} />
      </div>
    </main>
  )
}

function ByProvider({ host }: { host: string }): ReactNode {
  const leaving = useMutation({ mutationFn: leave })
  return (
    <>
      <button
        type="button"
        className="primary"
        disabled={leaving.isPending}
        onClick={() => leaving.mutate()}
      >
        {t.signIn.with(host)}
      </button>
      {leaving.isError && <Trouble error={leaving.error} />}
    </>
  )
}

function ByKey({ isFirst }: { isFirst: boolean }): ReactNode {
  const [key, setKey] = useState('')
  const signing = useMutation({
    mutationFn: () => call('POST /ojs/v1/session', { body: { key } }),
    onSuccess: () => queries.invalidateQueries(),
  })
  const onSubmit = (event: FormEvent) => {
    event.preventDefault()
    signing.mutate()
  }
  return (
    <form className="by-key" onSubmit={onSubmit}>
      <p>{isFirst ? t.signIn.why : t.signIn.orKey}</p>
      <label>
        {t.signIn.key}
        <input
          type="password"
          name="key"
          autoComplete="current-password"
          required
          value={key}
          onChange={(event) => setKey(event.target.value)}
        />
      </label>
      {signing.isError && <Trouble error={signing.error} />}
      <button type="submit" className={isFirst ? 'primary' : ''} disabled={signing.isPending}>
        {t.signIn.go}
      </button>
    </form>
  )
}

export async function signOut(): Promise<void> {
  await call('DELETE /ojs/v1/session')
  queries.clear()
  window.location.reload()
}
