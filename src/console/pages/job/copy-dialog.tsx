/** A new job like this one, with changes: nothing is changed in the old one. */
import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { call } from '../../api/client.ts'
import { t } from '../../text/text.ts'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { tell } from '../../ui/notes.ts'
import { typedJson } from '../../ui/typed-json.ts'
import type { ShownJob } from './shown-job.ts'

export function CopyDialog({ job, onClose }: { job: ShownJob; onClose: () => void }): ReactNode {
  const navigate = useNavigate()
  const [args, setArgs] = useState(() => JSON.stringify(job.args, null, 2))
  const [queue, setQueue] = useState(job.queue)
  const [priority, setPriority] = useState(String(job.priority))
  const copying = useMutation({
    mutationFn: () =>
      call('POST /ojs/v1/admin/jobs/{id}/copy', {
        path: { id: job.id },
        body: { override: changes(job, { args, queue, priority }) },
      }),
    onSuccess: ({ job: { id } }) => {
      tell(t.copyJob.done)
      onClose()
      void navigate({ to: '/jobs/$id', params: { id } })
    },
  })
  return (
    <FormDialog title={t.job.copy} go={t.copyJob.go} saving={copying} onClose={onClose}>
      <p>{t.copyJob.what}</p>
      <label>
        {t.copyJob.args}
        <textarea
          rows={10}
          spellCheck={false}
          value={args}
          onChange={(event) => setArgs(event.target.value)}
        />
      </label>
      <label>
        {t.jobs.queue}
        <input value={queue} onChange={(event) => setQueue(event.target.value)} />
      </label>
      <label>
        {t.job.priority}
        <input
          type="number"
          min={-100}
          max={100}
          value={priority}
          onChange={(event) => setPriority(event.target.value)}
        />
      </label>
    </FormDialog>
  )
}

interface Draft {
  args: string
  queue: string
  priority: string
}

/** Only what differs: anything else is copied as its producer sent it. */
function changes(job: ShownJob, { args, queue, priority }: Draft): Record<string, unknown> {
  const parsed = typedJson(args, t.copyJob.noJson)
  return {
    ...(JSON.stringify(parsed) !== JSON.stringify(job.args) && { args: parsed }),
    ...(queue !== job.queue && { queue }),
    ...(Number(priority) !== job.priority && { priority: Number(priority) }),
  }
}
