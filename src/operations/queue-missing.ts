import type { BrokerWarning } from '../broker/broker.ts'
import type { Rung } from '../ledger/ledger.ts'
import type { Deps } from './deps.ts'
import { tellRenewed } from './pause.ts'

/**
 * No queue that is there has this one. In the form of the broker's own: any other is that of an earlier
 * build, and the queue would be marked anew.
 */
const NO_MARKER = 'q-lost'

/**
 * A queue that we know is not in the broker any more (architecture §2, "Queue missing"). Before
 * it is declared anew, every job whose token was in it gets a new outbox nonce; the relay then
 * publishes them. That it is new is remembered before it is.
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
  const { ledger, clock } = deps
  const missing = deps.broker.silentlyAcknowledged(queue, ledger.counts(queue).available)
  const isDoubtful = missing > 0 || ledger.lost.has(queue)
  // What was seen of it is gone with this process, and the doubt is not.
  if (isDoubtful) await ledger.lost.mark(queue, clock.now())
  if (isDoubtful && !deps.transient.recovering.has(queue)) {
    deps.logger.error(
      { queue, missing },
      'queue is gone and its jobs may have run: not republished',
    )
    return 'leave'
  }
  const jobs = await ledger.rearm(queue, clock.now())
  if (jobs > 0)
    deps.logger.warn({ queue, jobs }, 'queue was gone: its jobs will be published again')
  await ledger.unwritten.mark(queue)
  if (jobs > 0 || isDoubtful) deps.wakeRelay()
  if (isRenewed) void tellRenewed(deps, queue)
  return 'declare'
}

/**
 * What tells the queue that has our tokens from another of its name (`QueueMarkers` of the broker). Null:
 * nothing is known of it. One that is there in the place of one that was lost is never the same.
 */
export function markerOf({ ledger }: Pick<Deps, 'ledger'>, queue: string): string | null {
  return ledger.lost.has(queue) ? NO_MARKER : ledger.queueMarker(queue)
}

/** Also while there is another queue of that name, which somebody else has declared. */
export function lostWarnings({ ledger }: Pick<Deps, 'ledger'>): BrokerWarning[] {
  return ledger.lost.all().map((queue) => ({
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
