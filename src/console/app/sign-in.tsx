/** Asks for an API key, which becomes a session: the page itself never keeps the key. */
import { useMutation } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, useState } from 'react'
import { call } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { t } from '../text/text.ts'
import { Trouble } from '../ui/answer.tsx'
import icon from '../ui/icon.svg'

export function SignIn(): ReactNode {
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
    <main className="alone">
      <form className="card sign-in" onSubmit={onSubmit}>
        <h1>
          <img src={icon} alt="" width="28" height="28" /> ojs-rabbitmq
        </h1>
        <p>{t.signIn.why}</p>
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
        <button type="submit" className="primary" disabled={signing.isPending}>
          {t.signIn.go}
        </button>
      </form>
    </main>
  )
}

export async function signOut(): Promise<void> {
  await call('DELETE /ojs/v1/session')
  queries.clear()
  window.location.reload()
}
