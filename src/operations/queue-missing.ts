import type { Rung } from '../ledger/ledger.ts'
import type { Deps } from './deps.ts'

/**
 * A queue that we know is not in the broker any more (architecture §2, "Queue missing"). Before
 * it is declared anew, every job whose token was in it gets a new outbox nonce; the relay then
 * publishes them.
 *
 * `leave`: not without an operator. The last look at the queue showed far fewer tokens than the
 * ledger has available jobs, so somebody acknowledges natively without reporting: to republish
 * would run finished jobs again.
 */
export async function onQueueMissing(deps: Deps, queue: string): Promise<'declare' | 'leave'> {
  const missing = deps.broker.silentlyAcknowledged(queue, deps.ledger.counts(queue).available)
  if (missing > 0) deps.lost.add(queue)
  if (deps.lost.has(queue) && !deps.recovering.has(queue)) {
    deps.logger.error(
      { queue, missing },
      'queue is gone and its jobs may have run: not republished',
    )
    return 'leave'
  }
  const jobs = await deps.ledger.rearm(queue)
  deps.lost.delete(queue)
  if (jobs > 0) {
    deps.logger.warn({ queue, jobs }, 'queue was gone: its jobs will be published again')
    deps.wakeRelay()
  }
  return 'declare'
}

/**
 * A retry delay queue is gone, with every token that waited in it: the ledger holds those jobs from
 * now on and publishes them when they are due.
 */
export async function onRungMissing(deps: Deps, rung: Rung): Promise<void> {
  const jobs = await deps.ledger.rearmRung(rung, deps.clock.now())
  if (jobs === 0) return
  deps.logger.warn({ ...rung, jobs }, 'retry queue was gone: the ledger holds its jobs')
  deps.wakeRelay()
}
