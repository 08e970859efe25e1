/** Drains a queue, or deletes it. */
import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { call } from '../../api/client.ts'
import { useMay } from '../../api/session.ts'
import { t } from '../../text/text.ts'
import { Action } from '../../ui/action.tsx'

/** The end of a drain is Resume. */
export function Drain({ name }: { name: string }): ReactNode {
  const may = useMay()
  if (!may('POST /ojs/v1/admin/queues/{name}/drain')) return null
  return (
    <Action
      name={t.queues.drain}
      question={<p>{t.queues.drainQuestion(name)}</p>}
      act={() => call('POST /ojs/v1/admin/queues/{name}/drain', { path: { name }, body: {} })}
      done={t.queues.draining(name)}
    />
  )
}

export function Delete({ name }: { name: string }): ReactNode {
  const may = useMay()
  const navigate = useNavigate()
  if (!may('DELETE /ojs/v1/queues/{name}')) return null
  return (
    <Action
      name={t.queues.remove}
      isDangerous
      question={<p>{t.queues.removeQuestion(name)}</p>}
      act={() => call('DELETE /ojs/v1/queues/{name}', { path: { name }, body: {} })}
      done={t.queues.removed(name)}
      onDone={() => void navigate({ to: '/queues' })}
    />
  )
}
