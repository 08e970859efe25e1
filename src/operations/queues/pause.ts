/** PAUSE and RESUME, and the broadcasts that tell native workers. */
import type { PublishOutcome } from '../../broker/broker.ts'
import { queueRefusal } from '../../broker/broker-errors.ts'
import { takesJobsWhilePaused } from '../../dialect.ts'
import { OjsError } from '../../errors.ts'
import { timestamp } from '../../job/document.ts'
import { checkQueueName } from '../../job/queue-name.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { briefly, broadcastPause } from '../workers/broadcasts.ts'

export function isPaused(deps: Pick<Deps, 'ledger'>, queue: string): boolean {
  return deps.ledger.known.pauses.since(queue) !== null
}

/** Throws 422 `queue_paused` (seed 001 §11.3): a paused queue takes nothing from producers. */
export function requireNotPaused(deps: Pick<Deps, 'ledger' | 'settings'>, queue: string): void {
  const pausedAt = deps.ledger.known.pauses.since(queue)
  if (pausedAt === null || takesJobsWhilePaused(deps.settings.dialect)) return
  throw new OjsError(
    'queue_paused',
    `Queue '${queue}' is currently paused. Jobs cannot be enqueued or fetched.`,
    { details: { queue, paused_at: timestamp(pausedAt) } },
  )
}

/**
 * PAUSE (seed 001 §11.3): until the queue is resumed, FETCH returns none of its jobs and PUSH refuses new
 * ones. Running jobs go on; retries, schedules and activations still become available. Pausing a paused
 * queue changes nothing. The answer waits briefly for the broadcast to native workers, as with CANCEL.
 * Throws 400 for an invalid queue name, 503, and what the first PUSH to a new queue may throw.
 */
export async function pauseQueue(
  deps: Deps,
  queue: string,
  { requestId }: RequestContext,
): Promise<{ pausedAt: number }> {
  await requireKnown(deps, queue)
  const { pausedAt, isNew } = await deps.ledger.pauses.pause(queue, deps.clock.now())
  if (isNew) deps.events.emit({ type: 'queue.paused', queue, requestId })
  await follow(deps, queue)
  return { pausedAt }
}

/** RESUME (seed 001 §11.4), which also ends DRAIN. Succeeds also for a queue that is not paused. Throws what PAUSE throws. */
export async function resumeQueue(
  deps: Deps,
  queue: string,
  { requestId }: RequestContext,
): Promise<{ resumedAt: number }> {
  await requireKnown(deps, queue)
  const resumedAt = deps.clock.now()
  const [{ isNew }] = await Promise.all([
    deps.ledger.pauses.resume(queue, resumedAt),
    deps.ledger.queueSettings.endDrain(queue),
  ])
  if (isNew) deps.events.emit({ type: 'queue.resumed', queue, requestId })
  await follow(deps, queue)
  return { resumedAt }
}

/** Broadcasts every pause, resume or renewal that has not been confirmed yet. Never rejects. */
export async function tellOwedPauses(deps: Deps): Promise<void> {
  const pauses = [...deps.ledger.known.pauses.owed()].map((queue) => tellWorkers(deps, queue))
  const renewals = [...deps.transient.renewed].map((queue) => tellRenewed(deps, queue))
  await Promise.all([...pauses, ...renewals])
}

/**
 * Makes native workers consume anew after another queue has taken the place of this one. RabbitMQ may not
 * have cancelled their consumers (3.10.8: a quorum queue that is deleted and declared within a millisecond).
 * Broadcasts a pause and a resume, after which every worker consumes anew; this does no harm to a worker
 * whose consumer is well. Never rejects.
 */
export async function tellRenewed(deps: Deps, queue: string): Promise<void> {
  // Workers that heard of the pause consume anew when the queue is resumed. Keep the queue in `renewed` for
  // the others: this broadcast is repeated after the resume.
  if (isPaused(deps, queue)) {
    deps.transient.renewed.add(queue)
    return
  }
  deps.transient.renewed.delete(queue)
  const both = [
    { queue, isPaused: true },
    { queue, isPaused: false },
  ]
  const told = both.map((state) => broadcastPause(deps, state))
  const outcomes = await Promise.all(told)
  if (outcomes.some((outcome) => outcome !== 'confirmed')) deps.transient.renewed.add(queue)
}

/** Declares an unknown queue, as its first job would (ojs-choices C-94). Throws when that is refused. */
async function requireKnown(deps: Deps, queue: string): Promise<void> {
  checkQueueName(queue, deps.settings.prefix, 'name')
  // For a known queue the ledger is enough, so it can be paused while RabbitMQ is away.
  if (deps.ledger.known.hasQueue(queue)) return
  const outcome = await deps.broker.ensureQueue(queue)
  if (outcome !== 'ready' && outcome !== 'lossy') throw queueRefusal(queue, outcome)
}

async function follow(deps: Deps, queue: string): Promise<void> {
  deps.broker.pauseChanged(queue)
  if (deps.ledger.known.pauses.owed().has(queue)) await briefly(tellWorkers(deps, queue))
}

/**
 * Broadcasts whether the queue is paused now, so that a repeated broadcast never undoes a later one. Only
 * the confirm of the newest broadcast counts as "told". An earlier one with the same content does not, since
 * workers may have been told the opposite between the two.
 */
async function tellWorkers(deps: Deps, queue: string): Promise<PublishOutcome> {
  const { newestWord } = deps.transient
  const pausedAt = deps.ledger.known.pauses.since(queue)
  const sent = broadcastPause(deps, { queue, isPaused: pausedAt !== null })
  newestWord.set(queue, sent)
  const outcome = await sent
  if (newestWord.get(queue) !== sent) return outcome
  newestWord.delete(queue)
  if (outcome === 'confirmed') deps.ledger.pauses.told(queue, pausedAt)
  return outcome
}
