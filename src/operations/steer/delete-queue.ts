/** Deletes a queue that has no jobs and no consumers, in RabbitMQ and in the ledger. */
import { setTimeout as sleep } from 'node:timers/promises'
import { brokerRefusal, queueRefusal } from '../../broker/broker-errors.ts'
import { OjsError } from '../../errors.ts'
import { parseQueueDeletion } from '../../schemas/requests/admin.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { fetch, giveBack } from '../fetch/fetch.ts'

/** RabbitMQ is told to end our own consumers, and has not always done so when it is asked. */
const TRIES = 10
const PAUSE_MS = 200
/** Longest wait for what is in RabbitMQ. */
const ARRIVAL_MS = 500

/**
 * Deletes a queue, its RabbitMQ queues included (OJS queue configuration §10, strategy `reject`). A PUSH at the
 * same time either comes first, and the queue stays, or creates the queue anew. Throws 400, 404, 409 with what
 * stands against it, 422 for another strategy, 503.
 */
export async function deleteQueue(
  deps: Deps,
  queue: string,
  body: unknown,
  context: RequestContext,
): Promise<void> {
  requireReject(body)
  const { broker, ledger, transient } = deps
  if (!ledger.known.hasQueue(queue)) throw queueRefusal(queue, 'missing')
  requireDeletable(deps, queue)
  const status = broker.status()
  if (status.state !== 'up') throw brokerRefusal(status.state)
  if (transient.deleting.has(queue)) throw inUse(queue, { reason: 'being_deleted' })
  await dropOldMessages(deps, queue, context)
  requireDeletable(deps, queue)
  transient.deleting.add(queue)
  try {
    // Our own consumers end, as for a pause.
    broker.pauseChanged(queue)
    if (!(await removed(deps, queue))) {
      requireDeletable(deps, queue)
      throw inUse(queue, { reason: 'in_use_in_rabbitmq' })
    }
    // Also if its limits are lifted now: the policy is still there.
    await broker.limits.forget(queue)
  } finally {
    transient.deleting.delete(queue)
    broker.pauseChanged(queue)
  }
  const { requestId, principal } = context
  deps.logger.info({ queue, requestId, principal }, 'queue deleted')
}

/** The other strategies of OJS's document act on the queue's jobs; purge and bulk operations do. */
function requireReject(body: unknown): void {
  const { strategy } = parseQueueDeletion(body)
  if (strategy == null || strategy === 'reject') return
  throw new OjsError(
    'unsupported',
    "A queue is deleted when it is empty ('reject'). Cancel, move or purge its jobs before.",
    { details: { field: 'strategy', reason: 'unsupported_strategy' } },
  )
}

function requireDeletable({ broker, ledger, workers }: Deps, queue: string): void {
  if (broker.removal.isPermanent(queue)) throw inUse(queue, { reason: 'queue_configured' })
  if (!ledger.known.idle.isEmpty(queue)) {
    const { completed: _, cancelled: __, discarded: ___, ...live } = ledger.known.counts(queue)
    const jobs = { ...live, dead_letters: ledger.known.deadLetterCount(queue) }
    throw inUse(queue, { reason: 'queue_has_jobs', jobs })
  }
  if (workers.queues().has(queue)) throw inUse(queue, { reason: 'queue_has_workers' })
}

const AGAINST = {
  queue_configured: 'is configured (OJS_QUEUES, the topology file), or the default queue',
  queue_has_jobs: 'has jobs that are not over, or dead letters',
  queue_has_workers: 'has workers, or had until a few minutes ago',
  in_use_in_rabbitmq:
    'has consumers or messages in RabbitMQ (of a paused queue none is dropped), a cron job, or may not be declared by this gateway',
  being_deleted: 'is being deleted by another request',
} as const

function inUse(queue: string, why: { reason: keyof typeof AGAINST; jobs?: object }): OjsError {
  return new OjsError('invalid_request', `Queue '${queue}' ${AGAINST[why.reason]}.`, {
    status: 409,
    details: { queue, ...why },
  })
}

/**
 * RabbitMQ may have messages of jobs that were cancelled or purged, which are dropped when they arrive; and of
 * jobs that a native producer has published and nobody has seen. FETCH tells which. Of a paused queue nothing
 * arrives.
 */
async function dropOldMessages(deps: Deps, queue: string, context: RequestContext): Promise<void> {
  const body = { queues: [queue], count: 1, wait_ms: ARRIVAL_MS }
  const jobs = await fetch(deps, body, context, new AbortController().signal)
  if (jobs.length > 0) await giveBack(deps, jobs)
}

async function removed({ broker, clock, ledger }: Deps, queue: string): Promise<boolean> {
  const removal = {
    isIdle: () => ledger.known.idle.isEmpty(queue),
    forget: async () => {
      // As when an idle queue is forgotten: a job that is stored meanwhile needs a new message.
      await ledger.rearm(queue, clock.now())
      await ledger.unwritten.settle(queue)
      return await ledger.idle.delete(queue)
    },
  }
  for (let i = 0; i < TRIES && ledger.known.idle.isEmpty(queue); i++) {
    if (i > 0) await sleep(PAUSE_MS, undefined, { ref: false })
    if (await broker.removal.forget(queue, removal)) return true
  }
  return false
}
