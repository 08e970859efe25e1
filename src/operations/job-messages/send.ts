/** The only publisher of job messages: sends what a row owes, and clears the nonce on the confirm. */
import type { PublishOutcome } from '../../broker/broker.ts'
import { publishRefusal, queueRefusal } from '../../broker/broker-errors.ts'
import type { OjsError } from '../../errors.ts'
import { isHeldByKey } from '../../job/concurrency.ts'
import { isTerminal, type JobRow } from '../../job/job.ts'
import type { Expired } from '../../ledger/ended.ts'
import type { Deps } from '../deps.ts'
import { broadcastCancel } from '../workers/broadcasts.ts'

/** Outcomes after which no queue has the message. */
const SURELY_LOST: ReadonlySet<SendOutcome> = new Set([
  'returned',
  'nacked',
  'too-large',
  'denied',
  'refused',
])

/**
 * `not-owed`: the first publish found no queue, and after that the row did not owe the job message any more; or
 * the job is held back by its concurrency key.
 */
type SendOutcome = PublishOutcome | 'not-owed'
type SendFailure = Exclude<PublishOutcome, 'confirmed'>

export interface Sent {
  outcome: SendOutcome
  /** The row whose nonce was published; a new one where the queue had to be declared again. */
  row: JobRow
}

/**
 * Publishes what `row.outbox` owes (the job message, or for a cancelled job the broadcast) and clears the
 * nonce on confirm (docs/architecture.md, law 3). The only caller of `broker.publish` for job messages; one
 * publish per job at a time. Never rejects, since most callers run in the background: when the ledger cannot
 * be read after a lost publish, the outcome is `unknown`, and the outbox still owes the message.
 */
export async function sendJobMessage(deps: Deps, row: JobRow): Promise<Sent> {
  deps.jobMessages.sending.add(row.id)
  try {
    const outcome = await publishOwed(deps, row)
    // The usual outcome has no part in `settled`: each function that awaits costs a PUSH a microtask turn.
    const sent = outcome === 'confirmed' ? { outcome, row } : await settled(deps, row, outcome)
    if (sent.outcome === 'confirmed') noteConfirm(deps, sent.row)
    else await noteNeverPublished(deps, sent)
    noteWhetherSure(deps, sent)
    return sent
  } catch (err) {
    deps.logger.warn(
      { err, jobId: row.id },
      'job message may not have been published; the outbox still owes it',
    )
    deps.jobMessages.unsure.add(row.id)
    return { outcome: 'unknown', row }
  } finally {
    deps.jobMessages.sending.delete(row.id)
  }
}

/**
 * True when the outbox still owes the job message: PUSH then withdraws the job, others leave it to the relay.
 */
export function isFailure(outcome: SendOutcome): outcome is SendFailure {
  return outcome !== 'confirmed' && outcome !== 'not-owed'
}

/**
 * Sends the job message and leaves a failed publish to the relay: for operations that answer from their
 * commit.
 */
export async function sendOrLeave(deps: Deps, row: JobRow): Promise<void> {
  leaveToRelay(deps, await sendJobMessage(deps, row))
}

/** Wakes the relay after a failed publish: its next pass may be 30 s away, a full queue drained sooner. */
export function leaveToRelay(deps: Deps, { outcome }: Sent): void {
  if (isFailure(outcome)) deps.wakeRelay()
}

function noteConfirm({ ledger }: Deps, { id, outbox, state }: JobRow): void {
  if (outbox === null) return
  if (state === 'discarded') ledger.copyConfirmed(id, outbox)
  else ledger.confirmed(outbox)
}

/**
 * Records the job message as returned when the job ended during the publish and the message surely reached no
 * queue. It will never arrive anywhere, so nothing else would record that, and the row could not be pruned.
 */
async function noteNeverPublished(
  { ledger, jobMessages }: Deps,
  { outcome, row }: Sent,
): Promise<void> {
  if (!SURELY_LOST.has(outcome) || isTerminal(row.state) || jobMessages.unsure.has(row.id)) return
  const now = await ledger.read.find(row.id)
  if (now === null || !isTerminal(now.state) || now.generation !== row.generation) return
  ledger.messageReturned(row.id, row.generation)
}

function noteWhetherSure({ jobMessages }: Deps, { outcome, row }: Sent): void {
  // A terminal row owes a broadcast or a dead letter copy, not a job message.
  if (isTerminal(row.state)) return
  if (outcome === 'unknown' || outcome === 'forbidden') jobMessages.unsure.add(row.id)
  else if (!isFailure(outcome)) jobMessages.unsure.forget(row.id)
}

/** What becomes of a publish that was not confirmed: publishes once more where the queue was gone. */
async function settled(deps: Deps, row: JobRow, outcome: SendOutcome): Promise<Sent> {
  if (outcome === 'not-owed') return { outcome, row }
  const isLost = outcome === 'returned' || (await diedWithQueue(deps, row, outcome))
  return isLost ? await sendAgain(deps, row) : { outcome, row }
}

/**
 * True when a nack means that the queue was deleted, not that it is full: RabbitMQ nacks publishes that
 * were on their way into a queue when it was deleted. Declares the queue again.
 */
async function diedWithQueue(deps: Deps, row: JobRow, outcome: PublishOutcome): Promise<boolean> {
  if (outcome !== 'nacked' || row.state !== 'available') return false
  if (!(await deps.broker.isQueueGone(row.queue))) return false
  await deps.broker.recheckQueue(row.queue)
  return true
}

function publishOwed(deps: Deps, row: JobRow): Promise<SendOutcome> {
  if (isHeldByKey(row)) return Promise.resolve('not-owed')
  if (row.state === 'cancelled') return broadcastCancel(deps, row)
  // The queue was lost, and another queue may have its name by now. Only `recover` may publish the waiting
  // job messages, this one among them.
  if (deps.ledger.known.lost.has(row.queue) && !isTerminal(row.state))
    return Promise.resolve('refused')
  return deps.broker.publish(row)
}

/**
 * After a publish that reached no queue: checks or declares the queue, and publishes once more what the
 * row owes by then.
 */
async function sendAgain(deps: Deps, row: JobRow): Promise<Sent> {
  if (row.state === 'retryable' && row.retryQueueMs !== null)
    return await afterLostRetryQueue(deps, row, row.retryQueueMs)
  const ensured = await deps.broker.ensureQueue(row.queue)
  // If the queue was missing, `ensureQueue` gave a new nonce to every waiting row, this one among them.
  const current = await deps.ledger.read.find(row.id)
  // The job has ended meanwhile: it needs no job message, and its outbox owes another message or none.
  if (current !== null && isTerminal(current.state) && !isTerminal(row.state)) {
    await noteNeverPublished(deps, { outcome: 'returned', row })
    return { outcome: 'not-owed', row }
  }
  if (current === null || current.outbox === null) return { outcome: 'not-owed', row }
  if (ensured !== 'ready') return { outcome: 'returned', row: current }
  return { outcome: await deps.broker.publish(current), row: current }
}

/**
 * The retry queue is gone or unbound: the ledger holds the job, and the outbox still owes its job message.
 */
async function afterLostRetryQueue(deps: Deps, row: JobRow, retryQueueMs: number): Promise<Sent> {
  await deps.broker.recheckRetryQueue(row.queue, retryQueueMs)
  return { outcome: 'returned', row: (await deps.ledger.read.find(row.id)) ?? row }
}

/**
 * Why a PUSH is refused whose job message was not confirmed. This very publish may have found the queue lost.
 */
export function sendRefusal(
  { ledger }: Pick<Deps, 'ledger'>,
  { queue }: Pick<JobRow, 'queue'>,
  outcome: SendFailure,
): OjsError {
  return ledger.known.lost.has(queue) && (outcome === 'returned' || outcome === 'refused')
    ? queueRefusal(queue, 'lost')
    : publishRefusal(queue, outcome)
}

/**
 * After the withdrawal of a job: records the job message as returned if it surely reached no queue, so that
 * the row may be pruned. After a timeout, or when RabbitMQ closed the channel, the message may still arrive:
 * native workers are told not to run it. `isWithdrawn` false: a worker has the job, or it was cancelled during
 * the publish.
 */
export async function noteWithdrawal(deps: Deps, sent: Sent, isWithdrawn: boolean): Promise<void> {
  if (!isWithdrawn) {
    await noteNeverPublished(deps, sent)
    return
  }
  const { outcome, row } = sent
  // `unsure` is bounded: while RabbitMQ stalls, withdrawn jobs would fill it up.
  deps.jobMessages.unsure.forget(row.id)
  if (SURELY_LOST.has(outcome)) deps.ledger.messageReturned(row.id, row.generation)
  else void broadcastCancel(deps, row)
}

/**
 * True when the message of a job that has just ended surely reached no queue: this process owed it and had no
 * publish of it under way or unanswered. It will not be published any more, so the row need not wait for the
 * job message to come back. False as well while the relay reads the row, which tells the ledger itself then.
 */
export function isUnsent({ jobMessages }: Deps, { job, isMessageOwed }: Expired): boolean {
  return isMessageOwed && jobMessages.isSurelyUnsent(job.id) && !jobMessages.reading.noteEnded(job)
}
