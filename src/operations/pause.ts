import type { PublishOutcome } from '../broker/broker.ts'
import { queueRefusal } from '../broker/refusals.ts'
import { takesJobsWhilePaused } from '../dialect.ts'
import { OjsError } from '../errors.ts'
import { timestamp } from '../job/document.ts'
import { checkQueueName } from '../job/queue-name.ts'
import { briefly, broadcastPause } from './broadcasts.ts'
import type { Deps, RequestContext } from './deps.ts'

export function isPaused(deps: Pick<Deps, 'ledger'>, queue: string): boolean {
  return deps.ledger.pauses.since(queue) !== null
}

/** Throws 422 `queue_paused` (seed 001 §11.3): a paused queue takes nothing from producers. */
export function requireNotPaused(deps: Pick<Deps, 'ledger' | 'settings'>, queue: string): void {
  const pausedAt = deps.ledger.pauses.since(queue)
  if (pausedAt === null || takesJobsWhilePaused(deps.settings.dialect)) return
  throw new OjsError(
    'queue_paused',
    `Queue '${queue}' is currently paused. Jobs cannot be enqueued or fetched.`,
    { details: { queue, paused_at: timestamp(pausedAt) } },
  )
}

/**
 * PAUSE (seed 001 §11.3): FETCH gives nothing of the queue and PUSH takes nothing for it, until it
 * is resumed. What runs goes on; retries, schedules and activations go on to flow in. A pause that
 * stands stays as it is. The answer waits for the broadcast to native workers, as CANCEL does.
 * Throws 400 for a name that cannot be a queue's, 503, and what the first job of a new queue could.
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

/** RESUME (seed 001 §11.4). Of a queue that is not paused too. Throws what PAUSE throws. */
export async function resumeQueue(
  deps: Deps,
  queue: string,
  { requestId }: RequestContext,
): Promise<{ resumedAt: number }> {
  await requireKnown(deps, queue)
  const resumedAt = deps.clock.now()
  const { isNew } = await deps.ledger.pauses.resume(queue, resumedAt)
  if (isNew) deps.events.emit({ type: 'queue.resumed', queue, requestId })
  await follow(deps, queue)
  return { resumedAt }
}

/** Tells the workers of every queue what they have not heard of it. Never rejects. */
export async function tellOwedPauses(deps: Deps): Promise<void> {
  const pauses = [...deps.ledger.pauses.owed()].map((queue) => tellWorkers(deps, queue))
  const renewals = [...deps.transient.renewed].map((queue) => tellRenewed(deps, queue))
  await Promise.all([...pauses, ...renewals])
}

/**
 * Another queue has taken the place of this one, and RabbitMQ may have told nobody who consumed it
 * (3.10.8: a quorum queue that is deleted and declared within a millisecond). Every worker consumes
 * anew after a pause, which ends at once; one that is well loses nothing by it. Never rejects.
 */
export async function tellRenewed(deps: Deps, queue: string): Promise<void> {
  // They consume anew when it is resumed, those that have heard of the pause: the others are told then.
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

/** One that is unknown comes into being, as with its first job (ojs-digest C-94). */
async function requireKnown(deps: Deps, queue: string): Promise<void> {
  checkQueueName(queue, deps.settings.prefix, 'name')
  // The ledger is enough: a queue that is known can be paused while RabbitMQ is away.
  if (deps.ledger.hasQueue(queue)) return
  const outcome = await deps.broker.ensureQueue(queue)
  if (outcome !== 'ready') throw queueRefusal(queue, outcome)
}

async function follow(deps: Deps, queue: string): Promise<void> {
  deps.broker.pauseChanged(queue)
  if (deps.ledger.pauses.owed().has(queue)) await briefly(tellWorkers(deps, queue))
}

/**
 * How it stands now, so that what is repeated never undoes what came after it. An earlier word that
 * says the same settles nothing: between the two the workers were told the opposite.
 */
async function tellWorkers(deps: Deps, queue: string): Promise<PublishOutcome> {
  const { newestWord } = deps.transient
  const pausedAt = deps.ledger.pauses.since(queue)
  const sent = broadcastPause(deps, { queue, isPaused: pausedAt !== null })
  newestWord.set(queue, sent)
  const outcome = await sent
  if (newestWord.get(queue) !== sent) return outcome
  newestWord.delete(queue)
  if (outcome === 'confirmed') deps.ledger.pauses.told(queue, pausedAt)
  return outcome
}
