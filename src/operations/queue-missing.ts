import type { BrokerWarning } from '../broker/broker.ts'
import type { Rung } from '../ledger/ledger.ts'
import type { Deps } from './deps.ts'
import { tellRenewed } from './pause.ts'

/** In the ledger in place of the marker of a queue that is lost: no queue that is there has this one. */
const LOST = 'lost'

/**
 * A queue that we know is not in the broker any more (architecture §2, "Queue missing"). Before
 * it is declared anew, every job whose token was in it gets a new outbox nonce; the relay then
 * publishes them.
 *
 * `leave`: not without an operator. The last look at the queue showed far fewer tokens than the
 * ledger has available jobs, so somebody acknowledges natively without reporting: to republish
 * would run finished jobs again. `isRenewed`: another one of its name is there already.
 */
export async function onQueueMissing(
  deps: Deps,
  queue: string,
  isRenewed: boolean,
): Promise<'declare' | 'leave'> {
  const missing = deps.broker.silentlyAcknowledged(queue, deps.ledger.counts(queue).available)
  if (missing > 0 || isLost(deps, queue)) deps.lost.add(queue)
  if (deps.lost.has(queue) && !deps.memory.recovering.has(queue)) {
    // What was seen of it is gone with this process, and the doubt is not.
    if (deps.ledger.queueMarker(queue) !== LOST) await deps.ledger.recordMarker(queue, LOST)
    deps.logger.error(
      { queue, missing },
      'queue is gone and its jobs may have run: not republished',
    )
    return 'leave'
  }
  const jobs = await deps.ledger.rearm(queue, deps.clock.now())
  const wasLost = deps.lost.delete(queue)
  if (jobs > 0)
    deps.logger.warn({ queue, jobs }, 'queue was gone: its jobs will be published again')
  if (jobs > 0 || wasLost) deps.wakeRelay()
  if (isRenewed) void tellRenewed(deps, queue)
  return 'declare'
}

/** Those that an earlier process has found lost. */
export function lostQueues(ledger: Deps['ledger']): Set<string> {
  const names = ledger.queues().map(({ name }) => name)
  return new Set(names.filter((name) => ledger.queueMarker(name) === LOST))
}

/** By what this process has seen, or another before it has written down. */
export function isLost({ ledger, lost }: Deps, queue: string): boolean {
  return lost.has(queue) || ledger.queueMarker(queue) === LOST
}

/** Also while there is another queue of that name, which somebody else has declared. */
export function lostWarnings({ lost }: Deps): BrokerWarning[] {
  return [...lost].map((queue) => ({
    code: 'queue_lost',
    message:
      `Queue '${queue}' was lost, and its jobs may have run: they are not published again, and ` +
      `it takes no new ones, before 'ojs-rabbitmq recover --queue ${queue}'.`,
    details: { queue },
  }))
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
