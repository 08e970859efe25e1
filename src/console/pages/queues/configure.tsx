/** The limits and the default retry policy of a queue: shown, and changed in a dialog. */
import { useMutation } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { ApiError, call } from '../../api/client.ts'
import type { AdminQueueDetail, QueueConfigRequest } from '../../api/openapi.ts'
import { askAgain } from '../../api/queries.ts'
import { useMay } from '../../api/session.ts'
import { number } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Trouble } from '../../ui/answer.tsx'
import { Fact } from '../../ui/fact.tsx'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { tell } from '../../ui/notes.ts'
import { Card } from '../../ui/page.tsx'
import { Tree } from '../../ui/tree.tsx'
import { typedJson } from '../../ui/typed-json.ts'

type Configuration = AdminQueueDetail['configuration']

export function Settings({ queue }: { queue: AdminQueueDetail }): ReactNode {
  const may = useMay()
  const [isOpen, setOpen] = useState(false)
  const { name, configuration } = queue
  const { default_retry: retry, max_size: size, max_size_bytes: bytes } = configuration
  return (
    <Card
      title={t.configure.title}
      aside={
        may('PUT /ojs/v1/admin/queues/{name}/config') && (
          <button type="button" className="small" onClick={() => setOpen(true)}>
            {t.configure.open}
          </button>
        )
      }
    >
      <dl className="facts">
        <Fact name={t.configure.size}>{shown(size)}</Fact>
        <Fact name={t.configure.bytes}>{shown(bytes)}</Fact>
        <Fact name={t.configure.retry}>
          {retry === undefined ? t.configure.own : <Tree value={retry} name={t.configure.retry} />}
        </Fact>
      </dl>
      {isOpen && (
        <ConfigureDialog name={name} before={configuration} onClose={() => setOpen(false)} />
      )}
    </Card>
  )
}

function shown(limit: unknown): string {
  return typeof limit === 'number' ? number(limit) : t.configure.unlimited
}

/** As text: what somebody writes. */
interface Draft {
  size: string
  bytes: string
  retry: string
}

interface DialogProps {
  name: string
  before: Configuration
  onClose: () => void
}

function ConfigureDialog({ name, before, onClose }: DialogProps): ReactNode {
  const first = draftOf(before)
  const [draft, setDraft] = useState(first)
  const set = (change: Partial<Draft>) => setDraft({ ...draft, ...change })
  const saving = useMutation({
    mutationFn: () =>
      call('PUT /ojs/v1/admin/queues/{name}/config', {
        path: { name },
        body: changeIn(first, draft),
      }),
    onSuccess: () => {
      tell(t.configure.done(name))
      askAgain()
      onClose()
    },
  })
  return (
    <FormDialog
      title={t.configure.heading(name)}
      go={t.configure.go}
      saving={saving}
      onClose={onClose}
      refusal={(error) => <Refusal error={error} />}
    >
      <p>{t.configure.what}</p>
      <Limit label={t.configure.size} value={draft.size} on={(size) => set({ size })} />
      <Limit label={t.configure.bytes} value={draft.bytes} on={(bytes) => set({ bytes })} />
      <label>
        {t.configure.retryJson}
        <textarea
          rows={4}
          spellCheck={false}
          placeholder={'{"max_attempts": 5, "initial_interval": "PT10S"}'}
          value={draft.retry}
          onChange={(event) => set({ retry: event.target.value })}
        />
      </label>
    </FormDialog>
  )
}

function Limit(props: { label: string; value: string; on: (value: string) => void }): ReactNode {
  return (
    <label>
      {props.label}
      <input
        inputMode="numeric"
        pattern="[0-9]*"
        placeholder={t.configure.unlimited}
        value={props.value}
        onChange={(event) => props.on(event.target.value)}
      />
    </label>
  )
}

/** Where the gateway may not set the policy, the answer has it, so that somebody else can. */
function Refusal({ error }: { error: unknown }): ReactNode {
  const policy = error instanceof ApiError ? error.details['policy'] : undefined
  return (
    <>
      <Trouble error={error} />
      {policy !== undefined && (
        <div className="dialog-body">
          <p>{t.configure.policy}</p>
          <Tree value={policy} name={t.rabbitmq.policy} />
        </div>
      )}
    </>
  )
}

function draftOf(configuration: Configuration): Draft {
  const { default_retry: retry, max_size: size, max_size_bytes: bytes } = configuration
  return {
    size: typeof size === 'number' ? String(size) : '',
    bytes: typeof bytes === 'number' ? String(bytes) : '',
    retry: retry === undefined ? '' : JSON.stringify(retry, null, 2),
  }
}

/** Only what was changed: a limit that is sent is a policy that is set anew. Throws for what is no JSON. */
function changeIn(first: Draft, draft: Draft): QueueConfigRequest {
  const limit = (text: string) => (text.trim() === '' ? null : Number(text))
  return {
    ...(draft.size !== first.size && { max_size: limit(draft.size) }),
    ...(draft.bytes !== first.bytes && { max_size_bytes: limit(draft.bytes) }),
    ...(draft.retry !== first.retry && { default_retry: policyIn(draft.retry) }),
  }
}

function policyIn(text: string): NonNullable<QueueConfigRequest['default_retry']> | null {
  if (text.trim() === '') return null
  return typedJson(text, t.configure.noJson) as NonNullable<QueueConfigRequest['default_retry']>
}
