import { queueRefusal } from '../broker/refusals.ts'
import { OjsError } from '../errors.ts'
import { checkQueueName } from '../job/queue-name.ts'
import type { Deps, RequestContext } from './deps.ts'
import { requirePublishing } from './require-broker.ts'

export interface Recovered {
  queue: string
  /** Available jobs of the queue, each of which gets a new token. */
  republished: number
}

/**
 * Declares a lost queue again and republishes all its available jobs, at an operator's request
 * (`ojs-rabbitmq recover --queue Q`). The gateway does not do that by itself when a worker seems to have
 * acknowledged jobs without reporting them. Another queue of the name may exist by now, declared by a
 * worker. Throws 400, 404 for a queue that the ledger does not know, 409 when the queue exists and was not
 * lost, 503.
 */
export async function recoverQueue(
  deps: Deps,
  queue: string,
  context: RequestContext,
): Promise<Recovered> {
  checkQueueName(queue, deps.settings.prefix, 'queue')
  requirePublishing(deps)
  if (!deps.ledger.hasQueue(queue)) throw queueRefusal(queue, 'missing')
  const before = deps.ledger.counts(queue).available
  if (!deps.ledger.lost.has(queue) && (await deps.broker.probeQueue(queue)) === 'exists') {
    const message = `Queue '${queue}' exists, and only a queue that is gone can be recovered.`
    throw new OjsError('invalid_request', message, {
      status: 409,
      details: { queue, reason: 'queue_exists' },
    })
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
