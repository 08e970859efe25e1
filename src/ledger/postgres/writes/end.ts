/** Discards and cancels jobs, and notes their copies in DLX queues. */
import { OjsError } from '../../../errors.ts'
import { isFromElsewhere } from '../../../job/arrival.ts'
import { mayDie } from '../../../job/dead-letter.ts'
import { type Cause, historyLine } from '../../../job/history/changes.ts'
import { isErased, isTerminal, type JobRow } from '../../../job/job.ts'
import type { Stale } from '../../../job/stale.ts'
import { canBecome } from '../../../job/states.ts'
import { type Discarding, dying, expiring } from '../../../job/transitions/discards.ts'
import {
  cancelled,
  copied,
  copyPublished,
  discarded,
  returned,
} from '../../../job/transitions/end.ts'
import { handedOver } from '../../../job/transitions/lease.ts'
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { Cancelled, WithNews } from '../../ended.ts'
import type { DeadMessage, DeadOutcome } from '../../native.ts'
import type { Draft } from '../group/draft.ts'
import { adoptJob } from './adopt.ts'

/** Was this process to publish the row's message, and has it seen no confirm? */
export function isMessageOwed({ memory }: Draft, { outbox }: Pick<JobRow, 'outbox'>): boolean {
  return outbox !== null && memory.isOurs(outbox) && !memory.confirming.has(outbox)
}

type Ended = { job: JobRow } & WithNews

/** Discards a job that runs no further attempt. */
export function discardJob(
  draft: Draft,
  row: KeptRow,
  now: number,
  { cause, ...discard }: Discarding,
): Ended {
  const line = historyLine(now, 'discarded', discard.attempt, null, cause)
  const job = draft.job(draft.change(row, discarded(row, now, discard, line)))
  return { job, news: draft.ended(row, job) }
}

/** The same for a job whose `expires_at` has passed. No copy in the DLX queue is owed. */
export function expireJob(
  draft: Draft,
  row: KeptRow,
  now: number,
  messageOut: boolean,
  cause?: Cause,
): Ended {
  return discardJob(draft, row, now, expiring(draft.job(row), messageOut, cause))
}

export function cancelJob(
  draft: Draft,
  id: string,
  now: number,
  cause: Cause = {},
): Cancelled | Stale {
  const row = draft.row(id)
  const state = row?.state
  if (!row || !state || isErased(state) || !canBecome(state, 'cancelled')) return draft.stale(id)
  const line = historyLine(now, 'cancelled', row.attempt, null, cause)
  const after = draft.change(row, cancelled(row, now, draft.nextNonce(), line))
  const job = draft.job(after)
  const isOwed = isMessageOwed(draft, row)
  return { job, previousState: state, isMessageOwed: isOwed, news: draft.ended(row, job) }
}

/** See `Ledger.cancelAny`. */
export function cancelAny(
  draft: Draft,
  id: string,
  { queue, isScoped, now }: { queue: string; isScoped: boolean; now: number },
  cause?: Cause,
): Cancelled | Stale | 'tombstoned' | 'elsewhere' {
  const row = draft.row(id)
  if (row !== null)
    return isScoped && row.queue !== queue ? 'elsewhere' : cancelJob(draft, id, now, cause)
  const tombstone = { queue, isScoped, cancelledAt: now }
  return draft.recordTombstone(id, tombstone) ? 'tombstoned' : 'elsewhere'
}

interface Times {
  now: number
  wall: number
}

/** See `NativeLedger.discardDead`. */
export function discardDead(draft: Draft, message: DeadMessage, times: Times): DeadOutcome {
  const row = draft.row(message.id)
  if (row === null) return adoptDead(draft, message, times.now)
  if (isFromElsewhere(message, row)) return { outcome: 'ignored' }
  if (!mayDie(message, row, times)) {
    noteCopyOf(draft, message, row)
    return { outcome: 'ignored' }
  }
  return { outcome: 'discarded', ...discardRow(draft, message, row, times.now) }
}

function noteCopyOf(draft: Draft, { generation, attempt }: DeadMessage, row: KeptRow): void {
  if (generation > row.generation) return
  if (generation < row.generation) draft.staleCopy(row.queue)
  else if (isTerminal(row.state)) noteCopyOfEnded(draft, row)
  else noteCopyOfRunning(draft, row, attempt)
}

/**
 * A native worker has nacked the delivery of a job that had ended. If the job was discarded, this may be the
 * copy that is owed. A listed dead letter that expired was owed none, and has one now. The copy of any other
 * job is stale. In each case the job message is back.
 */
function noteCopyOfEnded(draft: Draft, row: KeptRow): void {
  const copy = copied(row, row.generation)
  const after = copy ? draft.change(row, copy) : row
  if (!row.isDeadLetter) draft.staleCopy(row.queue)
  const back = returned(after, after.generation, null)
  if (back) draft.change(after, back)
}

/**
 * RabbitMQ requeued the delivery, because its consumer's connection was lost, and the queue's limits removed
 * it then. The lease, or the retry that the ledger holds, goes on without a job message. With a native holder
 * any attempt number is taken for that of the lease: a native worker's message may have an earlier one.
 */
function noteCopyOfRunning(draft: Draft, row: KeptRow, attempt: number): void {
  // When the job has ended, nobody needs this copy, unless the job is a dead letter: let a sweep decide.
  draft.staleCopy(row.queue)
  if (attempt !== row.attempt && row.holder !== 'native') return
  const handOver = handedOver(row, row, true)
  const after = handOver ? draft.change(row, handOver) : row
  const back = returned(after, after.generation, null)
  if (back) draft.change(after, back)
}

function adoptDead(draft: Draft, message: DeadMessage, now: number): DeadOutcome {
  // Cancelled before it came: there is no job to discard, and its job message is out of the queue already.
  if (draft.isTombstoned(message.id, message.queue ?? null)) return { outcome: 'ignored' }
  const error = adoptJob(draft, message, now)
  const row = draft.row(message.id)
  if (error instanceof OjsError || row === null)
    return { outcome: 'malformed', error: error ?? new OjsError('invalid_request', 'no job') }
  return { outcome: 'discarded', ...discardRow(draft, message, row, now) }
}

function discardRow(draft: Draft, message: DeadMessage, row: KeptRow, now: number): Ended {
  const record = message.describe(draft.job(row))
  if (!message.isExpired && !record.isCounted) draft.traffic.failed(row.queue, now)
  if (!record.isDeadLetter) draft.staleCopy(row.queue)
  return discardJob(draft, row, now, dying(message, row, record, now))
}

/**
 * Records the copy that was published for this nonce, and that the broker has confirmed. A copy of a row that
 * was deleted, revived or pruned meanwhile is stale, as is that of a job that is not listed.
 */
export function confirmCopy(draft: Draft, id: string, outbox: number): void {
  const row = draft.row(id)
  if (row === null) return
  const copy = copyPublished(row, outbox)
  if (copy) draft.change(row, copy)
  if (!copy || !row.isDeadLetter) draft.staleCopy(row.queue)
}
