/** Creates a queue before its first job. */
import { queueRefusal } from '../../broker/broker-errors.ts'
import { OjsError } from '../../errors.ts'
import { checkQueueName } from '../../job/queue-name.ts'
import { parseQueueCreation } from '../../schemas/requests/admin.ts'
import type { Deps, RequestContext } from '../deps.ts'

/**
 * Declares a queue in RabbitMQ, and records it, as its first job would (OJS queue configuration). Throws 400;
 * 409 for a queue that is known; 404, 422 and 503 as the first PUSH to it would.
 */
export async function createQueue(
  deps: Deps,
  body: unknown,
  { requestId, principal }: RequestContext,
): Promise<{ name: string; createdAt: number }> {
  const { name } = parseQueueCreation(body)
  checkQueueName(name, deps.settings.prefix, 'name')
  if (deps.ledger.known.hasQueue(name)) {
    throw new OjsError('duplicate', `Queue '${name}' exists already.`, {
      details: { resource_type: 'queue', resource_id: name, field: 'name' },
    })
  }
  const outcome = await deps.broker.ensureQueue(name)
  if (outcome !== 'ready') throw queueRefusal(name, outcome)
  const now = deps.clock.now()
  await deps.ledger.recordQueue(name, now)
  deps.logger.info({ queue: name, requestId, principal }, 'queue created')
  return {
    name,
    createdAt: deps.ledger.known.queues().find((one) => one.name === name)?.createdAt ?? now,
  }
}
