/** A job as a list shows it, and as the Admin API shows it in full. */
import type { Request } from 'express'
import { jobDocument, timestamp, withheldDocument } from '../../job/document.ts'
import type { JobRow } from '../../job/job.ts'
import { traceIdOf } from '../../job/trace/traceparent.ts'
import { jsonOrNull, membersOf } from '../../job/values/json-value.ts'
import { withheld, withoutText } from '../../job/withheld.ts'
import type { FoundJob } from '../../operations/search/search.ts'
import { mayReadPayloads } from '../access/roles.ts'

const MAX_MESSAGE = 200

/** What of its payload a list shows beside each job. */
export interface Included {
  args: boolean
  meta: boolean
  /** The texts of errors. */
  texts: boolean
}

/** The whole document of a job, as far as the caller may read it. */
export function documentFor({ admission }: Request, job: JobRow): string {
  return mayReadPayloads(admission) ? jobDocument(job) : withheldDocument(job)
}

/** JSON: the whole jobs of a page. */
export function documentsFor(request: Request, jobs: readonly FoundJob[]): string {
  const whole = jobs.flatMap(({ whole: job }) => job ?? [])
  return `[${whole.map((job) => documentFor(request, job)).join(',')}]`
}

/** A job in a list: what it is and how it stands; small, whatever it carries. */
export function jobItem(job: FoundJob, included: Included): object {
  const { id, type, queue, state, priority, attempt, maxAttempts, carry, workerId } = job
  const scheduledAt = carry?.scheduledAt ?? (state === 'scheduled' ? at(job.dueAt) : undefined)
  return present({
    ...{ id, type, queue, state, priority, attempt, max_attempts: maxAttempts },
    tags: carry?.tags ?? [],
    created_at: timestamp(job.createdAt),
    enqueued_at: timestamp(job.enqueuedAt),
    scheduled_at: scheduledAt,
    started_at: at(job.startedAt),
    completed_at: at(job.completedAt),
    cancelled_at: at(job.cancelledAt),
    discarded_at: at(job.discardedAt),
    next_attempt_at: state === 'retryable' ? at(job.dueAt) : undefined,
    expires_at: at(job.expiresAt),
    worker_id: workerId === null || workerId === '' ? undefined : workerId,
    workflow_id: job.workflowId ?? undefined,
    error: job.error === null ? undefined : errorOf(job.error, included),
    ...payloadOf(job.whole, included),
  })
}

function errorOf(text: string, { texts }: Included): unknown {
  const error = membersOf(jsonOrNull(text))
  if (!texts) return withoutText(error)
  const { code, type, message } = error
  return present({
    code,
    type,
    message: typeof message === 'string' ? message.slice(0, MAX_MESSAGE) : undefined,
  })
}

function payloadOf(whole: JobRow | null, { args, meta }: Included): object {
  if (whole === null) return {}
  const envelope = membersOf(jsonOrNull(whole.envelope))
  return present({
    args: args ? envelope['args'] : undefined,
    meta: meta ? (envelope['meta'] ?? {}) : undefined,
  })
}

/**
 * The whole job, flat: the document of INFO, and the members that OJS's Admin API and its user interface need
 * beside them. JSON text, so that what the producer sent comes back as it was.
 */
export function jobDetail({ whole, workflowId }: FoundJob, isWithheld: boolean): string {
  if (whole === null) throw new Error('bug: the detail of a job needs its whole row')
  const document = jobDocument({ ...whole, errors: listedErrors(whole.errors) })
  const shown = membersOf(JSON.parse(document))
  const beside = {
    ...missing(shown, {
      ...{ id: whole.id, type: whole.type, queue: whole.queue, priority: whole.priority },
      ...{
        max_attempts: whole.maxAttempts,
        timeout_ms: whole.timeoutMs,
        args: [],
        meta: {},
        tags: [],
      },
      ...{ created_at: timestamp(whole.createdAt), result: null, specversion: '1.0' },
    }),
    ...present({
      retry_policy: shown['retry'],
      workflow_id: workflowId ?? undefined,
      options: optionsOf(whole, shown),
      trace_id: traceIdOf(whole.carry?.traceparent ?? ''),
    }),
    metadata: timesOf(whole),
  }
  if (isWithheld) return JSON.stringify(withheld({ ...shown, ...beside }))
  return `${document.slice(0, -1)},${JSON.stringify(beside).slice(1)}`
}

/** A backtrace is a list of frames here, as OJS's user interface reads it. */
function listedErrors(errors: string | null): string {
  const list = errors === null ? [] : jsonOrNull(errors)
  if (!Array.isArray(list)) return '[]'
  const framed = list.map((entry: unknown) => {
    const members = membersOf(entry)
    const { backtrace } = members
    return typeof backtrace === 'string' ? { ...members, backtrace: backtrace.split('\n') } : entry
  })
  return JSON.stringify(framed)
}

function optionsOf({ queue, priority, timeoutMs }: JobRow, shown: Record<string, unknown>): object {
  const { tags, scheduled_at, expires_at, unique, retry } = shown
  return present({
    queue,
    priority,
    timeout_ms: timeoutMs,
    tags,
    scheduled_at,
    expires_at,
    unique,
    retry,
  })
}

function timesOf(job: JobRow): object {
  return {
    created_at: timestamp(job.createdAt),
    enqueued_at: timestamp(job.enqueuedAt),
    started_at: at(job.startedAt) ?? null,
    scheduled_at: job.carry?.scheduledAt ?? null,
    completed_at: at(job.completedAt) ?? null,
    cancelled_at: at(job.cancelledAt) ?? null,
    discarded_at: at(job.discardedAt) ?? null,
  }
}

function missing(shown: Record<string, unknown>, wanted: Record<string, unknown>): object {
  return Object.fromEntries(Object.entries(wanted).filter(([name]) => !Object.hasOwn(shown, name)))
}

function at(instant: number | null): string | undefined {
  return instant === null ? undefined : timestamp(instant)
}

function present(members: Record<string, unknown>): object {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))
}
