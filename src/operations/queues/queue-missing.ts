/** A queue is gone from RabbitMQ: new nonces for its jobs, or `queue_lost` when they may have run. */
import type { BrokerWarning } from '../../broker/broker.ts'
import type { RetryQueue } from '../../ledger/known.ts'
import type { Deps } from '../deps.ts'
import { tellRenewed } from './pause.ts'

/**
 * An identity that no existing queue has. It has the form of the broker layer's own identities: one of
 * another form counts as made by an earlier build, and the queue would be marked again.
 */
const NO_IDENTITY = 'q-lost'

/**
 * Handles a known queue that RabbitMQ does not have any more (docs/architecture.md §2, "Queue missing").
 * Before the queue is declared again, gives every job whose job message was in it a new outbox nonce, which
 * the relay then publishes, and records that the queue is new. `isRenewed`: another queue of this name exists
 * already.
 *
 * Returns `leave` when only an operator may declare the queue: it is marked as lost, or its last depth sample
 * showed far fewer messages than the ledger has available jobs. Then a native worker acknowledges without
 * reporting, and republished jobs could run a second time.
 */
export async function onQueueMissing(
  deps: Deps,
  queue: string,
  isRenewed: boolean,
): Promise<'declare' | 'leave'> {
  const { ledger, clock } = deps
  const missing = deps.broker.silentlyAcknowledged(queue, ledger.known.counts(queue).available)
  const isDoubtful = missing > 0 || ledger.known.lost.has(queue)
  // Stored, because the depth sample is lost when this process ends, and the doubt must not be.
  if (isDoubtful) await ledger.lost.mark(queue, clock.now())
  if (isDoubtful && !deps.transient.recovering.has(queue)) {
    deps.logger.error(
      { queue, missing },
      'queue is gone and its jobs may have run: jobs are not published again',
    )
    return 'leave'
  }
  const jobs = await ledger.rearm(queue, clock.now())
  if (jobs > 0)
    deps.logger.warn({ queue, jobs }, 'queue was gone: its jobs will be published again')
  // Recorded as well: a queue that no job was ever stored for would never be forgotten.
  await Promise.all([ledger.unwritten.mark(queue), ledger.recordQueue(queue, clock.now())])
  if (jobs > 0 || isDoubtful) deps.wakeRelay()
  if (isRenewed) void tellRenewed(deps, queue)
  return 'declare'
}

/**
 * Returns the identity that tells the queue with the gateway's job messages from another queue of the same
 * name (`QueueIdentities` of the broker); null: none is known. For a lost queue it is an identity that no
 * queue has, so that a queue in its place never counts as the same.
 */
export async function identityOf(
  { ledger }: Pick<Deps, 'ledger'>,
  queue: string,
): Promise<string | null> {
  return ledger.known.lost.has(queue) ? NO_IDENTITY : await ledger.read.queueIdentity(queue)
}

/** Warnings for lost queues, also while another queue of the name exists that a client declared. */
export function lostWarnings({ ledger }: Pick<Deps, 'ledger'>): BrokerWarning[] {
  return ledger.known.lost.all().map((queue) => ({
    code: 'queue_lost',
    message:
      `Queue '${queue}' was lost, and its jobs may have run. The gateway neither publishes them ` +
      `again nor accepts new ones until you run 'ojs-rabbitmq recover --queue ${queue}'.`,
    details: { queue },
  }))
}

/**
 * Handles a retry queue that is gone with every job message in it: from now on the ledger holds those jobs,
 * and publishes them when they are due.
 */
export async function onRetryQueueMissing(deps: Deps, retryQueue: RetryQueue): Promise<void> {
  const jobs = await deps.ledger.rearmRetryQueue(retryQueue, deps.clock.now())
  if (jobs === 0) return
  deps.logger.warn({ ...retryQueue, jobs }, 'retry queue was gone: the ledger now holds its jobs')
  deps.wakeRelay()
}
