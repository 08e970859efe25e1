/** `recover`: publishes available jobs that have no message, at an operator's request. */
import { queueRefusal } from '../../broker/broker-errors.ts'
import { OjsError, unavailable } from '../../errors.ts'
import { checkQueueName } from '../../job/queue-name.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { MAX_COUNTED } from '../drift.ts'
import { requirePublishing } from '../require-broker.ts'

/** Most ids that are listed. */
const MAX_LISTED = 100

export interface Recovered {
  queue: string
  /** Jobs of the queue that get a new job message. */
  republished: number
}

/** What `recoverQueue` would do. */
export interface Recoverable {
  queue: string
  dry_run: true
  /** How many available jobs have no message, as far as is known. */
  jobs_without_message: number
  /** The first of them. */
  job_ids: string[]
}

/**
 * Republishes available jobs that have no message, at an operator's request (`ojs-rabbitmq recover --queue
 * Q`): all of a lost queue, which is declared again; those of an existing queue that has been empty for a
 * minute (`drift.ts`). The gateway does not do that by itself when a worker seems to have acknowledged jobs
 * without reporting them. Another queue of the name may exist by now, declared by a worker. Throws 400, 404
 * for a queue that the ledger does not know, 409 when the queue exists and lacks no message, 503.
 */
export async function recoverQueue(
  deps: Deps,
  queue: string,
  context: RequestContext,
): Promise<Recovered> {
  const found = await find(deps, queue)
  const before = found.jobs_without_message
  if (!found.isGone) {
    if (found.upTo === null) throw queueExists(queue)
    const republished = await deps.ledger.lostMessages.rearm(queue, {
      after: null,
      before: found.upTo,
    })
    deps.wakeRelay()
    deps.logger.warn({ queue, jobs: republished, requestId: context.requestId }, 'jobs recovered')
    return { queue, republished }
  }
  deps.transient.recovering.add(queue)
  try {
    const outcome = await deps.broker.recheckQueue(queue)
    if (outcome !== 'ready') throw queueRefusal(queue, outcome)
  } finally {
    deps.transient.recovering.delete(queue)
  }
  deps.logger.warn({ queue, jobs: before, requestId: context.requestId }, 'queue recovered')
  return { queue, republished: before }
}

/** Tells what `recoverQueue` would publish, and changes nothing. Throws as it does, but not 409. */
export async function recoverable(deps: Deps, queue: string): Promise<Recoverable> {
  const { jobs_without_message, job_ids } = await find(deps, queue)
  return { queue, dry_run: true, jobs_without_message, job_ids }
}

async function find(deps: Deps, queue: string) {
  checkQueueName(queue, deps.settings.prefix, 'queue')
  requirePublishing(deps)
  const { broker, ledger } = deps
  if (!ledger.known.hasQueue(queue)) throw queueRefusal(queue, 'missing')
  const isGone = ledger.known.lost.has(queue) || (await broker.probeQueue(queue)) !== 'exists'
  // What runs, or has run, by a report that waits is not without a message.
  if (!(await broker.catchUp([queue]))) throw reportsWait(queue)
  const upTo = isGone ? Number.MAX_SAFE_INTEGER : broker.driftedBefore(queue)
  const span = { after: null, before: upTo ?? 0 }
  const ids = upTo === null ? [] : await ledger.read.lostMessages.list(queue, span, MAX_COUNTED)
  return {
    isGone,
    upTo,
    jobs_without_message: isGone ? ledger.known.counts(queue).available : ids.length,
    job_ids: ids.slice(0, MAX_LISTED),
  }
}

function reportsWait(queue: string): OjsError {
  return unavailable(`Reports about jobs of queue '${queue}' still wait; repeat it later.`, 'busy')
}

function queueExists(queue: string): OjsError {
  const message = `Queue '${queue}' exists, and no job of it is known to have no message.`
  return new OjsError('invalid_request', message, {
    status: 409,
    details: { queue, reason: 'queue_exists' },
  })
}
