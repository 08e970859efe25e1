import { setTimeout as sleep } from 'node:timers/promises'
import { checkQueueName } from '../../job/queue-name.ts'
import type { SyncRequest } from '../../job/request.ts'
import type { Deps } from '../deps.ts'
import { isPaused } from '../pause.ts'
import type { Directive } from '../worker-registry.ts'

const MAX_TOMBSTONES = 10_000
/** In a log line. */
const MAX_NAMED = 10
/** Who asks waits a second, and the answer may have to wait as well. */
const BROKER_WAIT_MS = 500
const LOOK_AGAIN_MS = 25

export interface Synchronised {
  /** Ids of these queues that must not run, the newest first. */
  tombstones: string[]
  /** The generations of those among them that have had more than one life: up to this one. */
  generations?: Record<string, number>
  /** There are more: the worker has to ask about every token until its queue was empty once. */
  truncated: boolean
  paused: string[]
  directive: Directive
  /**
   * Those that are not there and may not be declared, or were lost; absent: none. Nothing is said of
   * one that RabbitMQ could not be asked for.
   */
  not_ready?: string[]
}

/**
 * A native worker is about to consume these queues (architecture §5): what it must know before it
 * does. The queues are declared where that is allowed, and known from now on; so is the worker, if it
 * gives its name. Throws 400 for a name that cannot be a queue's; 503.
 */
export async function sync(deps: Deps, request: SyncRequest): Promise<Synchronised> {
  const { worker_id: workerId, queues, rung_ms: rungMs } = request
  for (const queue of queues) checkQueueName(queue, deps.settings.prefix, 'queues')
  const directive = workerId == null ? 'running' : deps.workers.joined(workerId, queues)
  const notReady = await ensureAll(deps, queues)
  // Whose tokens went with one that is gone is known to us alone, as above.
  if (rungMs != null)
    await Promise.all(queues.map((queue) => deps.broker.recheckRung(queue, rungMs)))
  const { cancelled, truncated } = deps.ledger.tombstones(queues, MAX_TOMBSTONES)
  const later = cancelled.filter(({ generation }) => generation > 0)
  return {
    tombstones: cancelled.map(({ id }) => id),
    ...(later.length > 0 && {
      generations: Object.fromEntries(later.map(({ id, generation }) => [id, generation])),
    }),
    truncated,
    paused: queues.filter((queue) => isPaused(deps, queue)),
    directive,
    ...(notReady.length > 0 && { not_ready: notReady }),
  }
}

/**
 * Looked for anew: a worker whose queue is gone asks before it declares it itself, and what was in
 * it is known to nobody else. The answer is worth having even where one is not ready: returns those.
 */
async function ensureAll(deps: Deps, queues: readonly string[]): Promise<string[]> {
  const until = performance.now() + BROKER_WAIT_MS
  const outcomes = await Promise.all(queues.map((queue) => ensure(deps, queue, until)))
  const missing = queues.flatMap((queue, i) => {
    const outcome = outcomes[i]
    return outcome === 'ready' ? [] : [{ queue, outcome }]
  })
  if (missing.length === 0) return []
  const fields = { queues: missing.slice(0, MAX_NAMED), count: missing.length }
  deps.logger.warn(fields, 'queues of a native worker are not ready')
  // Of one that could not be asked for, nobody knows that it is not there: who is told so stays away
  // from a queue that is most often well. It finds out as soon as it consumes.
  return missing.flatMap(({ queue, outcome }) => (outcome === 'unavailable' ? [] : [queue]))
}

/**
 * Of a gateway's connections that of the consumers is often back first, and everybody asks then: where
 * RabbitMQ cannot be asked yet, this waits a moment for the others.
 */
async function ensure(deps: Deps, queue: string, until: number) {
  let outcome = await deps.broker.recheckQueue(queue)
  if (outcome === 'unavailable' && (await isBack(deps, until))) {
    outcome = await deps.broker.recheckQueue(queue)
  }
  if (outcome === 'ready') await deps.ledger.recordQueue(queue, deps.clock.now())
  return outcome
}

async function isBack({ broker }: Deps, until: number): Promise<boolean> {
  while (broker.status().state === 'down') {
    if (performance.now() >= until) return false
    await sleep(LOOK_AGAIN_MS)
  }
  return true
}
