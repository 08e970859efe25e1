/** Cancel, retry, retry with changes, copy, delete: what the job's state and the caller's role allow. */
import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { call } from '../../api/client.ts'
import { useMay } from '../../api/session.ts'
import { t } from '../../text/text.ts'
import { Action } from '../../ui/action.tsx'
import { canTouch } from '../jobs/touched.ts'
import { CopyDialog } from './copy-dialog.tsx'
import type { ShownJob } from './shown-job.ts'

export function JobActions({ job }: { job: ShownJob }): ReactNode {
  const may = useMay()
  const navigate = useNavigate()
  const [isCopying, setCopying] = useState(false)
  const path = { id: job.id }
  return (
    <>
      {canTouch('retry', job.state) && may('POST /ojs/v1/admin/jobs/{id}/retry') && (
        <Action
          name={t.job.retry}
          isPrimary
          {...(job.state === 'completed' && { question: <p>{t.job.retryCompleted}</p> })}
          act={() => call('POST /ojs/v1/admin/jobs/{id}/retry', { path, body: {} })}
          done={t.job.retried}
        />
      )}
      {may('POST /ojs/v1/admin/jobs/{id}/copy') && job.payload_withheld !== true && (
        <button type="button" onClick={() => setCopying(true)}>
          {t.job.copy}
        </button>
      )}
      {canTouch('cancel', job.state) && may('POST /ojs/v1/admin/jobs/{id}/cancel') && (
        <Action
          name={t.job.cancel}
          isDangerous
          question={<p>{job.state === 'active' ? t.job.cancelActive : t.job.cancelWaiting}</p>}
          act={() => call('POST /ojs/v1/admin/jobs/{id}/cancel', { path, body: {} })}
          done={t.job.cancelledNow}
        />
      )}
      {canTouch('delete', job.state) && may('DELETE /ojs/v1/admin/jobs/{id}') && (
        <Action
          name={t.job.remove}
          isDangerous
          question={<p>{t.job.removeQuestion}</p>}
          act={() => call('DELETE /ojs/v1/admin/jobs/{id}', { path })}
          done={t.job.removed}
          onDone={() => void navigate({ to: '/jobs' })}
        />
      )}
      {isCopying && <CopyDialog job={job} onClose={() => setCopying(false)} />}
    </>
  )
}
