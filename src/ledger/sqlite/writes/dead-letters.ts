/** A message that died in RabbitMQ: discards its job, if the job waited for it. */
import { OjsError } from '../../../errors.ts'
import { isFromElsewhere } from '../../../job/arrival.ts'
import { mayDie } from '../../../job/dead-letter.ts'
import { type Cause, historyLine } from '../../../job/history/changes.ts'
import { isErased, isTerminal, type JobRow } from '../../../job/job.ts'
import { dying } from '../../../job/transitions/discards.ts'
import type { KeyHolder } from '../../enqueued.ts'
import type { DeadMessage, DeadOutcome } from '../../native.ts'
import { inTurn } from '../concurrency/lines.ts'
import type { CopiedRow } from '../sql/end.ts'
import { changed, toJobRow } from '../sql/rows.ts'
import { counted } from '../state/state-counter.ts'
import type { Store } from '../state/store.ts'
import { adoptJob } from './adopt.ts'
import { discardJob } from './discard.ts'
import { rivalOf } from './unique.ts'

interface Times {
  now: number
  wall: number
}

/** See `NativeLedger.discardDead`: a dead-lettered job message discards its job, if the job waited for it. */
export function discardDead(store: Store, jobMessage: DeadMessage, times: Times): DeadOutcome {
  const row = toJobRow(store.statements.find.get(jobMessage.id))
  if (row === null) return adoptDead(store, jobMessage, times)
  if (isFromElsewhere(jobMessage, row)) return { outcome: 'ignored' }
  if (!mayDie(jobMessage, row, times)) {
    noteCopyOf(store, jobMessage, row)
    return { outcome: 'ignored' }
  }
  return discardRow(store, jobMessage, row, times.now)
}

function noteCopyOf(store: Store, { generation, attempt }: DeadMessage, row: JobRow): void {
  if (generation > row.generation) return
  if (generation < row.generation) store.stale.add(row.queue)
  else if (isTerminal(row.state)) noteCopyOfEnded(store, row)
  else noteCopyOfRunning(store, row, attempt)
}

/**
 * A native worker has nacked the delivery of a job that had ended. If the job was discarded, this may be the
 * copy that is owed. A listed dead letter that expired was owed none, and has one now. The copy of any other
 * job is stale. In each case the job message is back.
 */
function noteCopyOfEnded(store: Store, row: JobRow): void {
  const isOwed = row.state === 'discarded' && !row.deadLetterCopied
  if (isOwed) recordCopy(store, row.id, row.generation)
  else if (!row.isDeadLetter) store.stale.add(row.queue)
  store.statements.messageReturned.run(row.id, row.generation, null)
}

/**
 * RabbitMQ requeued the delivery, because its consumer's connection was lost, and the queue's limits removed
 * it then. The lease, or the retry that the ledger holds, goes on without a job message. With a native holder
 * any attempt number is taken for that of the lease: a native worker's message may have an earlier one.
 */
function noteCopyOfRunning(store: Store, row: JobRow, attempt: number): void {
  // When the job has ended, nobody needs this copy, unless the job is a dead letter: let a sweep decide.
  store.stale.add(row.queue)
  if (attempt !== row.attempt && row.holder !== 'native') return
  store.statements.handOverAny.run(row.id, row.generation, row.attempt)
  store.statements.messageReturned.run(row.id, row.generation, null)
}

function adoptDead(store: Store, jobMessage: DeadMessage, { now }: Times): DeadOutcome {
  // Cancelled before it came: there is no job to discard, and its job message is out of the queue already.
  if (store.tombstones.has(jobMessage.id, jobMessage.queue ?? null)) return { outcome: 'ignored' }
  const adopted = adoptJob(store, jobMessage, now)
  if (adopted instanceof OjsError) return { outcome: 'malformed', error: adopted }
  const row = changed(store.statements.find.get(adopted.id))
  return discardRow(store, jobMessage, row, now)
}

function discardRow(store: Store, jobMessage: DeadMessage, row: JobRow, now: number): DeadOutcome {
  const record = jobMessage.describe(row)
  const discarded = discardJob(store, row, now, dying(jobMessage, row, record, now))
  if (!jobMessage.isExpired && !record.isCounted) store.traffic.note.failed(row.queue, now)
  if (!record.isDeadLetter) store.stale.add(row.queue)
  return { outcome: 'discarded', ...discarded }
}

/** Begins the next generation of a job, with its `unique` key; conflict if another job has it now. */
export function reviveJob(
  store: Store,
  row: JobRow,
  now: number,
  cause: Cause = {},
): JobRow | { outcome: 'conflict'; existing: KeyHolder; uniqueKey: string } {
  const rival = isTerminal(row.state) ? rivalOf(store, row, now) : null
  if (rival) return { outcome: 'conflict', ...rival }
  const isKept = row.state === 'retryable'
  const line = historyLine(now, 'available', isKept ? row.attempt : 0, null, cause)
  const { id, generation, state } = row
  const job = changed(
    store.statements.revive.get(id, generation, now, store.nonces.next(), line, state),
  )
  forget(store, row)
  // A native worker that comes later may be given the message of the generation before.
  if (row.messageOut) store.tombstones.record(id, row.queue, now)
  store.counter.moved(job.queue, counted(state), 'available')
  return inTurn(store, job)
}

/** Erases an ended job. The row stays for a while, so that late job messages are recognized and dropped. */
export function eraseJob(store: Store, row: JobRow, now: number): void {
  store.statements.cronRunEnd.run(row.id)
  store.statements.eraseEnded.run(row.id, now, row.state)
  forget(store, row)
  store.notes.forget(row.id)
  store.counter.moved(row.queue, counted(row.state), null)
}

/** Notes that the row is no dead letter any more, and that its copy is stale. */
function forget(store: Store, row: JobRow): void {
  if (row.isDeadLetter) store.counter.moved(row.queue, 'dead_letter', null)
  if (row.deadLetterCopied) store.stale.add(row.queue)
}

/** Records the copy that a nack has made. */
function recordCopy(store: Store, id: string, generation: number): void {
  noteCopy(store, id, generation, store.statements.deadLetterCopied.get(id, generation))
}

/** Records the copy that was published for this nonce, and that the broker has confirmed. */
export function confirmCopy(store: Store, id: string, outbox: number): void {
  // If the row has another nonce or none by now, this copy belongs to an earlier generation.
  noteCopy(store, id, null, store.statements.copyConfirmed.get(id, outbox))
}

/**
 * Marks a recorded copy as stale if nobody needs it: the copy of a job that is not listed as a dead letter,
 * and a copy of a row that was deleted, revived or pruned meanwhile (`copied` undefined).
 */
function noteCopy(
  store: Store,
  id: string,
  generation: number | null,
  copied: CopiedRow | undefined,
): void {
  if (copied) {
    if (copied.isDeadLetter === 0) store.stale.add(copied.queue)
    return
  }
  const row = toJobRow(store.statements.find.get(id))
  if (!row) return
  const isPast = generation === null || row.generation > generation || isErased(row.state)
  if (isPast) store.stale.add(row.queue)
}
