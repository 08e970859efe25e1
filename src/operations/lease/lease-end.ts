import type { Delivery } from '../../broker/broker.ts'
import { isTerminal, type JobRow } from '../../job/job.ts'
import type { AttemptFence } from '../../ledger/leases.ts'
import type { Deps } from '../deps.ts'
import { isFailure, leaveToRelay, sendToken } from '../token/send-token.ts'

/**
 * The lease is over: its delivery goes, and whatever waited for the row to move is looked at.
 * True when the token has come back with it.
 */
export function settleLease(deps: Deps, id: string): boolean {
  return takeLease(deps, id)?.ack() === 'settled'
}

/**
 * The same, but the caller settles the delivery, after what has to come first. It is no longer
 * among the held ones: the job may be claimed again meanwhile, with another delivery.
 */
export function takeLease(deps: Deps, id: string): Delivery | undefined {
  const delivery = deps.tokens.held.get(id)
  deps.tokens.held.delete(id)
  deps.broker.unpark(id)
  return delivery
}

/** `leased`: as it was until then. Its worker may never say of itself that it is done with it. */
export function noteEnded({ workers }: Deps, leased: JobRow): void {
  if (leased.workerId !== null) workers.ended(leased.workerId, leased.id)
}

/**
 * Publish, confirm, then acknowledge (law 2). Without a confirm the outbox still owes the token, so
 * that the old delivery is worth nothing and goes all the same.
 */
export async function sendThenSettle(
  deps: Deps,
  row: JobRow,
  delivery: Delivery | undefined,
): Promise<void> {
  const sent = await sendToken(deps, row)
  leaveToRelay(deps, sent)
  const isBack = delivery?.ack() === 'settled'
  if (!isBack && isFailure(sent.outcome)) noteLeftOver(deps, row)
}

/**
 * The job goes on, and the token of its last attempt may be the broker's again, whose connection went:
 * until the next one is confirmed nobody may take the job for one without a token.
 */
export function noteLeftOver({ tokens }: Deps, row: Pick<JobRow, 'id' | 'state'>): void {
  if (!isTerminal(row.state)) tokens.unsure.add(row.id)
}

/**
 * `active → available` with the attempt not counted. The token is the one that is held, unless the
 * ledger owes another: the held one may be of an earlier attempt.
 */
export async function requeueLease(
  deps: Deps,
  job: JobRow,
  { workerId, requestId }: Pick<AttemptFence, 'workerId'> & { requestId?: string } = {},
): Promise<JobRow | 'stale'> {
  const { generation, attempt } = job
  const tokenAttempt = deps.tokens.held.get(job.id)?.attempt ?? null
  const worker = workerId === undefined ? {} : { workerId }
  const row = await deps.ledger.release(job.id, { generation, attempt, tokenAttempt, ...worker })
  if (row === 'stale') return row
  noteEnded(deps, job)
  // Before the token is there for others, whose `job.started` would come first.
  const asked = requestId === undefined ? {} : { requestId }
  deps.events.emit({ type: 'job.enqueued', job: row, promoted: true, ...asked })
  const delivery = takeLease(deps, job.id)
  if (row.outbox !== null) void sendThenSettle(deps, row, delivery)
  else if (delivery?.isLive()) deps.broker.putBack([delivery])
  return row
}

/**
 * The copy in the DLX queue (seed 002 §5.5). It is there when ours has come (`died-in-broker.ts`): a nack
 * may be lost with its connection, and then the token comes back.
 */
export function deadLetterDelivery(deps: Deps, delivery: Delivery, job: JobRow): void {
  toDeadLetters(deps, delivery, () => deps.ledger.tokenReturned(job.id, job.generation))
}

/**
 * `basic.nack requeue=false`. A job queue that somebody else has declared (seed 002 §15.1) is consumed
 * before its dead letter queue is there, and RabbitMQ drops what it can route nowhere: that waits.
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
