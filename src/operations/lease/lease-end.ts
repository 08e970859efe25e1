/** What follows the commit that ended a lease: its delivery is acknowledged, republished or rejected. */
import type { Delivery } from '../../broker/broker.ts'
import { isHeldByKey } from '../../job/concurrency.ts'
import type { Cause } from '../../job/history/changes.ts'
import { isTerminal, type JobRow } from '../../job/job.ts'
import { isStale, type Stale } from '../../job/stale.ts'
import type { SettleFence } from '../../ledger/leases.ts'
import type { Deps } from '../deps.ts'
import { isFailure, leaveToRelay, sendJobMessage } from '../job-messages/send.ts'

/**
 * Acknowledges the delivery of a lease that has ended, and unparks deliveries that waited for its row to
 * change. Returns true when the delivery was settled, so that the job's message is back from RabbitMQ.
 */
export function settleLease(deps: Deps, id: string): boolean {
  return takeLease(deps, id)?.ack() === 'settled'
}

/**
 * As `settleLease`, but leaves it to the caller to settle the delivery after a publish. Removes the
 * delivery from `jobMessages.held` at once, since the job may be claimed again with another delivery
 * meanwhile.
 */
export function takeLease(deps: Deps, id: string): Delivery | undefined {
  const delivery = deps.jobMessages.held.get(id)
  deps.jobMessages.held.delete(id)
  deps.broker.unpark(id)
  return delivery
}

/**
 * Tells the worker registry that a lease has ended: the worker's own heartbeats may never say so.
 * `leased`: the row as it was during the lease, or with its worker still in it.
 */
export function noteEnded({ workers }: Deps, leased: JobRow): void {
  if (leased.workerId !== null) workers.ended(leased.workerId, leased.id)
}

/**
 * Publishes the job message of `row`, waits for the confirm, then acknowledges the old delivery
 * (docs/architecture.md, law 2). Acknowledges it without a confirm as well: the outbox then owes the new
 * message, and the old one would only be dropped on arrival.
 */
export async function sendThenSettle(
  deps: Deps,
  row: JobRow,
  delivery: Delivery | undefined,
): Promise<void> {
  const sent = await sendJobMessage(deps, row)
  leaveToRelay(deps, sent)
  const isBack = delivery?.ack() === 'settled'
  if (!isBack && isFailure(sent.outcome)) noteLeftOver(deps, row)
}

/**
 * Notes that the job message of the last attempt may be back in its queue, because the connection was lost
 * before the ack. Until the next message is confirmed, the job must not be treated as one without a message.
 */
export function noteLeftOver({ jobMessages }: Deps, row: Pick<JobRow, 'id' | 'state'>): void {
  if (!isTerminal(row.state)) jobMessages.unsure.add(row.id)
}

/**
 * Makes an active job available again without counting the attempt. Reuses the held delivery as its job
 * message, unless the ledger wrote a new outbox nonce: there may be no held delivery, or one of an earlier
 * attempt.
 */
export async function requeueLease(
  deps: Deps,
  id: string,
  fence: SettleFence,
  cause?: Cause,
): Promise<JobRow | Stale> {
  const messageAttempt = deps.jobMessages.held.get(id)?.attempt ?? null
  const now = deps.clock.now()
  const released = await deps.ledger.release(id, { ...fence, messageAttempt, now, cause })
  if (isStale(released)) return released
  const { job: row, before } = released
  noteEnded(deps, before)
  // Emitted before `putBack`: another FETCH could claim the job message and emit `job.started` first.
  deps.events.emit({
    type: 'job.enqueued',
    job: row,
    promoted: true,
    from: 'active',
    requestId: cause?.requestId,
  })
  const delivery = takeLease(deps, id)
  if (row.outbox !== null || isHeldByKey(row)) void sendThenSettle(deps, row, delivery)
  else if (delivery?.isLive()) deps.broker.putBack([delivery])
  return row
}

/**
 * Dead-letters the delivery of a discarded job: the nack puts its copy into the DLX queue (seed 002 §5.5).
 * The copy is recorded as made only when the gateway's own copy arrives (`died-in-broker.ts`), because a
 * nack can be lost with its connection; RabbitMQ then delivers the job message again.
 */
export function deadLetterDelivery(deps: Deps, delivery: Delivery, job: JobRow): void {
  toDeadLetters(deps, delivery, () => deps.ledger.messageReturned(job.id, job.generation))
}

/**
 * Sends `basic.nack requeue=false`, after declaring the queue's dead letter queue if need be. The gateway
 * also consumes a job queue that a client declared (seed 002 §15.1) and that has no dead letter queue yet;
 * RabbitMQ would drop a dead letter that it cannot route.
 */
export function toDeadLetters(deps: Deps, delivery: Delivery, onSettled = () => {}): void {
  const settle = () => {
    if (delivery.deadLetter() === 'settled') onSettled()
  }
  if (deps.broker.isDeclared(delivery.queue)) settle()
  else {
    void deps.broker.ensureQueue(delivery.queue).then((outcome) => {
      if (outcome === 'unavailable') deps.broker.putBack([delivery])
      else settle()
    })
  }
}
