/** The history of a job in the words of OJS's document: several records for each change of state. */
import { timestamp } from '../document.ts'
import { allowedAttempts, isTerminal, type JobRow } from '../job.ts'
import type { ErrorEntry } from '../retry/error-history.ts'
import { jsonOrNull, membersOf } from '../values/json-value.ts'
import { cut, utf8Bytes } from '../values/limits.ts'
import { PRIORITY_CHANGED, type StateChange } from './changes.ts'

/** OJS execution history §"Records". */
export interface HistoryRecord {
  id: string
  job_id: string
  event_type: string
  timestamp: string
  actor: { type: 'worker' | 'client' | 'system'; id: string }
  data: Readonly<Record<string, unknown>>
  metadata?: { request_id: string }
}

/** Longest error message in a record; the whole one is in the job's `errors`. */
const MAX_MESSAGE = 500

/** The records of these changes, oldest first. */
export function historyRecords(job: JobRow, changes: readonly StateChange[]): HistoryRecord[] {
  const errors = errorsOf(job)
  let startedAt: number | null = null
  let place = 0
  return changes.flatMap((change, i) => {
    place = changes[i - 1]?.at === change.at ? place : 0
    if (change.to === 'active') startedAt = change.at
    const records = recordsOf(job, change, { startedAt, errors })
    if (isOfAttempt(change)) startedAt = null
    return records.map(([type, data]) => {
      place += 1
      // The same in each answer, although older records may be dropped in between.
      const id = `evt_${job.id}.${change.at}.${place}`
      return record(job, change, { id, type, data })
    })
  })
}

type Data = Readonly<Record<string, unknown>>

interface Known {
  startedAt: number | null
  errors: readonly Partial<ErrorEntry>[]
}

function recordsOf(job: JobRow, change: StateChange, known: Known): [string, Data][] {
  const { from, to, attempt, reason } = change
  if (from === null) return [['job.created', creation(job, change)]]
  if (from === to && reason === PRIORITY_CHANGED) return [[`job.${reason}`, {}]]
  const moved: [string, Data] = ['job.state_changed', { from, to, ...because(reason) }]
  switch (to) {
    case 'active':
      return [moved, ['job.attempt_started', { worker_id: change.workerId, attempt }]]
    case 'completed':
      return [moved, ['job.attempt_completed', { attempt, ...duration(change, known) }]]
    case 'cancelled':
      return [moved, ['job.cancelled', because(reason)]]
    case 'discarded': {
      const end = { total_attempts: attempt, last_error: lastError(job) }
      return [moved, ...failures(job, change, known), ['job.discarded', end]]
    }
    default:
      return [moved, ...failures(job, change, known)]
  }
}

function creation(job: JobRow, { to, reason }: StateChange): Data {
  const args = membersOf(jsonOrNull(job.envelope))['args'] ?? []
  const size = utf8Bytes(JSON.stringify(args))
  const { queue, type } = job
  return { queue, type, state: to, args_size_bytes: size, ...because(reason) }
}

/** The record of a failed attempt, if this change ended one. */
function failures(job: JobRow, change: StateChange, known: Known): [string, Data][] {
  if (!isOfAttempt(change) || change.reason === 'released') return []
  const { attempt, to } = change
  const error = errorAt(known.errors, change)
  const failure = {
    attempt,
    error: cut(error?.message ?? change.reason ?? '', MAX_MESSAGE),
    error_code: error?.code,
    error_type: error?.type,
    will_retry: !isTerminal(to) && attempt < allowedAttempts(job),
    ...duration(change, known),
  }
  return [['job.attempt_failed', failure]]
}

/** Does this change end an attempt? */
function isOfAttempt({ from, to }: StateChange): boolean {
  return from === 'active' && to !== 'active'
}

function duration({ at }: StateChange, { startedAt }: Known): { duration_ms?: number } {
  return startedAt === null ? {} : { duration_ms: Math.max(0, at - startedAt) }
}

function because(reason: string | null): { reason?: string } {
  return reason === null ? {} : { reason }
}

function lastError({ error }: JobRow): string | null {
  const { message } = membersOf(jsonOrNull(error ?? ''))
  return typeof message === 'string' ? cut(message, MAX_MESSAGE) : null
}

function errorsOf({ errors }: JobRow): readonly Partial<ErrorEntry>[] {
  return errors === null ? [] : JSON.parse(errors)
}

/** After a retry by hand attempts have the same numbers again: the entry counts whose time is nearest to the change. */
function errorAt(
  errors: readonly Partial<ErrorEntry>[],
  { attempt, at }: StateChange,
): Partial<ErrorEntry> | undefined {
  const ofAttempt = errors.filter((entry) => (entry.attempt ?? 0) === attempt)
  const distance = ({ occurred_at = '' }: Partial<ErrorEntry>) =>
    Math.abs(Date.parse(occurred_at) - at)
  return ofAttempt.reduceRight<Partial<ErrorEntry> | undefined>(
    (best, entry) => (best === undefined || distance(entry) < distance(best) ? entry : best),
    undefined,
  )
}

function record(
  job: JobRow,
  change: StateChange,
  { id, type, data }: { id: string; type: string; data: Data },
): HistoryRecord {
  const { at, requestId } = change
  return {
    id,
    job_id: job.id,
    event_type: type,
    timestamp: timestamp(at),
    actor: actorOf(change),
    data,
    ...(requestId !== null && { metadata: { request_id: requestId } }),
  }
}

function actorOf({ workerId, principal, requestId, reason }: StateChange): HistoryRecord['actor'] {
  if (workerId !== null) return { type: 'worker', id: workerId }
  if (principal !== null || requestId !== null) return { type: 'client', id: principal ?? '' }
  return { type: 'system', id: reason ?? '' }
}

/** One entry of `GET /jobs/:id/retries`, which OJS's own command line asks for. */
export interface RetryRecord {
  attempt: number
  state: string
  error: string
  started_at: string | null
  failed_at: string
  next_retry_at: string | null
}

/** The failed attempts among these changes, oldest first. */
export function retryRecords(job: JobRow, changes: readonly StateChange[]): RetryRecord[] {
  const errors = errorsOf(job)
  let startedAt: number | null = null
  const retries: RetryRecord[] = []
  for (const [i, change] of changes.entries()) {
    if (change.to === 'active') startedAt = change.at
    const [failure] = failures(job, change, { startedAt, errors })
    if (failure === undefined || change.to === 'completed' || change.to === 'cancelled') continue
    const next = changes[i + 1]?.at ?? job.dueAt
    retries.push({
      attempt: change.attempt,
      state: change.to,
      error: String(failure[1]['error']),
      started_at: startedAt === null ? null : timestamp(startedAt),
      failed_at: timestamp(change.at),
      next_retry_at: isTerminal(change.to) || next === null ? null : timestamp(next),
    })
  }
  return retries
}
