/** Makes a recurring job, or changes one; tells what the expression means while it is written. */
import { useMutation } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { call } from '../../api/client.ts'
import type { CronChange, CronJob } from '../../api/openapi.ts'
import { askAgain } from '../../api/queries.ts'
import { OWN_ZONE } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { tell } from '../../ui/notes.ts'
import { useSettled } from '../../ui/settled.ts'
import { typedJson } from '../../ui/typed-json.ts'
import { NextTimes } from './next-times.tsx'
import { useWords } from './words.ts'

interface EntryFormProps {
  /** Absent: a new one. */
  entry?: CronJob
  onClose: () => void
}

const OVERLAPS = ['skip', 'allow', 'cancel_previous', 'enqueue'] as const

/** What is written in the form. */
interface Draft {
  name: string
  cron: string
  timezone: string
  type: string
  args: string
  queue: string
  overlap_policy: CronJob['overlap_policy']
  description: string
}

export function EntryForm({ entry, onClose }: EntryFormProps): ReactNode {
  const [draft, setDraft] = useState(() => draftOf(entry))
  const saving = useMutation({
    mutationFn: () => save(draft, entry),
    onSuccess: ({ warnings = [] }) => {
      for (const text of [t.cron.saved(draft.name), ...warnings.map(({ message }) => message)]) {
        tell(text)
      }
      askAgain()
      onClose()
    },
  })
  const set = (change: Partial<Draft>) => setDraft({ ...draft, ...change })
  return (
    <FormDialog
      title={entry === undefined ? t.cron.create : entry.name}
      go={t.cron.save}
      saving={saving}
      onClose={onClose}
    >
      {entry === undefined && (
        <Text label={t.cron.name} isRequired value={draft.name} on={(name) => set({ name })} />
      )}
      <Text label={t.cron.expression} isRequired value={draft.cron} on={(cron) => set({ cron })} />
      <Text
        label={t.cron.timezone}
        isRequired
        list="zones"
        value={draft.timezone}
        on={(timezone) => set({ timezone })}
      />
      <datalist id="zones">
        {ZONES.map((zone) => (
          <option key={zone} value={zone} />
        ))}
      </datalist>
      <Meaning expression={draft.cron} timezone={draft.timezone} />
      <Text label={t.jobs.type} isRequired value={draft.type} on={(type) => set({ type })} />
      <label>
        {t.copyJob.args}
        <textarea
          rows={4}
          spellCheck={false}
          value={draft.args}
          onChange={(event) => set({ args: event.target.value })}
        />
      </label>
      <Text label={t.jobs.queue} value={draft.queue} on={(queue) => set({ queue })} />
      <Overlap value={draft.overlap_policy} on={(each) => set({ overlap_policy: each })} />
      <Text
        label={t.cron.description}
        value={draft.description}
        on={(description) => set({ description })}
      />
    </FormDialog>
  )
}

interface TextProps {
  label: string
  value: string
  on: (value: string) => void
  isRequired?: boolean
  /** The id of what it offers. */
  list?: string
}

function Text({ label, value, on, isRequired = false, list }: TextProps): ReactNode {
  return (
    <label>
      {label}
      <input
        value={value}
        required={isRequired}
        spellCheck={false}
        autoComplete="off"
        list={list}
        onChange={(event) => on(event.target.value)}
      />
    </label>
  )
}

interface OverlapProps {
  value: Draft['overlap_policy']
  on: (value: Draft['overlap_policy']) => void
}

function Overlap({ value, on }: OverlapProps): ReactNode {
  return (
    <label>
      {t.cron.overlap}
      <select
        value={value}
        onChange={(event) => on(OVERLAPS.find((each) => each === event.target.value) ?? 'skip')}
      >
        {OVERLAPS.map((each) => (
          <option key={each} value={each}>
            {t.cron.overlaps[each]}
          </option>
        ))}
      </select>
    </label>
  )
}

/** Asked of the gateway, which alone knows its dialect; a mistake is told in its words. */
function Meaning({ expression, timezone }: { expression: string; timezone: string }): ReactNode {
  const wordsOf = useWords()
  const asked = useSettled(JSON.stringify({ expression, timezone }))
  if (expression.trim() === '' || timezone === '') return null
  return (
    <div>
      <p role="status">{wordsOf(expression)}</p>
      <NextTimes {...JSON.parse(asked)} />
    </div>
  )
}

const ZONES: readonly string[] = ['UTC', ...Intl.supportedValuesOf('timeZone')]

function draftOf(entry: CronJob | undefined): Draft {
  return {
    name: entry?.name ?? '',
    cron: entry?.cron ?? '',
    timezone: entry?.timezone ?? OWN_ZONE,
    type: entry?.type ?? '',
    args: JSON.stringify(entry?.args ?? [], null, 2),
    queue: queueOf(entry),
    overlap_policy: entry?.overlap_policy ?? 'skip',
    description: entry?.description ?? '',
  }
}

function queueOf(entry: CronJob | undefined): string {
  const queue = entry?.options?.['queue']
  return typeof queue === 'string' ? queue : ''
}

function save(draft: Draft, entry: CronJob | undefined) {
  const body = bodyOf(draft, entry)
  return entry === undefined
    ? call('POST /ojs/v1/cron', { body: { ...body, name: draft.name } })
    : call('PATCH /ojs/v1/cron/{name}', { path: { name: entry.name }, body })
}

/** Of an entry that is there only what differs: anything else stays as its program wrote it. */
function bodyOf(draft: Draft, entry: CronJob | undefined): CronChange {
  const before = draftOf(entry)
  const isNew = entry === undefined
  const differs = (name: keyof Draft) => isNew || draft[name] !== before[name]
  return {
    ...(differs('cron') && { cron: draft.cron }),
    ...(differs('timezone') && { timezone: draft.timezone }),
    ...(differs('type') && { type: draft.type }),
    ...(differs('args') && { args: listIn(draft.args) }),
    ...(differs('overlap_policy') && { overlap_policy: draft.overlap_policy }),
    ...(draft.queue !== before.queue && { options: { queue: draft.queue } }),
    ...(draft.description !== before.description && { description: draft.description }),
  }
}

function listIn(text: string): unknown[] {
  const value = typedJson(text, t.cron.noList)
  if (Array.isArray(value)) return value
  throw new Error(t.cron.noList)
}
