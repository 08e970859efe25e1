/** Pauses a queue, or lets it go on. */
import type { ReactNode } from 'react'
import { call } from '../../api/client.ts'
import { useMay } from '../../api/session.ts'
import { t } from '../../text/text.ts'
import { Action } from '../../ui/action.tsx'

interface HaltProps {
  name: string
  /** It is paused or draining. */
  isHalted: boolean
}

export function PauseOrResume({ name, isHalted }: HaltProps): ReactNode {
  const may = useMay()
  if (isHalted) {
    if (!may('POST /ojs/v1/admin/queues/{name}/resume')) return null
    return (
      <Action
        name={t.queues.resume}
        act={() => call('POST /ojs/v1/admin/queues/{name}/resume', { path: { name }, body: {} })}
        done={t.queues.resumed(name)}
      />
    )
  }
  if (!may('POST /ojs/v1/admin/queues/{name}/pause')) return null
  return (
    <Action
      name={t.queues.pause}
      question={<p>{t.queues.pauseQuestion(name)}</p>}
      act={() => call('POST /ojs/v1/admin/queues/{name}/pause', { path: { name }, body: {} })}
      done={t.queues.pausedNow(name)}
    />
  )
}
