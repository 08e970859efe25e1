/** What a native worker must know before it consumes: cancelled jobs, queues that are not ready. */
import { setTimeout as sleep } from 'node:timers/promises'
import { invalidField } from '../../errors.ts'
import { checkQueueName } from '../../job/queue-name.ts'
import type { SyncRequest } from '../../job/request.ts'
import { Slots } from '../../slots.ts'
import type { Deps } from '../deps.ts'
import { isPaused } from '../queues/pause.ts'
import type { Directive } from '../workers/worker-registry.ts'
import { scopeOf } from './scope.ts'

const DEFAULT_QUEUE = 'default'
const MAX_TOMBSTONES = 10_000
/** Queues named in a log line. */
const MAX_NAMED = 10
/** The worker waits 1 s for the reply, which may be delayed itself. */
const BROKER_WAIT_MS = 500
const LOOK_AGAIN_MS = 25
/**
 * Queues of one question that are asked about at a time. The broker bounds those of all questions; this
 * leaves room between them for a request or another worker, which would wait behind a hundred queues of each.
 */
const QUEUES_AT_ONCE = 8

export interface Synchronised {
  /** Ids of cancelled jobs of these queues, newest first: their job messages must not run. */
  tombstones: string[]
  /** For tombstones of jobs that had more than one life: job messages up to this generation must not run. */
  generations?: Record<string, number>
  /**
   * True: there are more tombstones. The worker must claim every job message until its queue was empty once.
   */
  truncated: boolean
  paused: string[]
  directive: Directive
  /**
   * Queues that do not exist and may not be declared, or were lost; absent: none. Does not include queues
   * that RabbitMQ could not be asked about.
   */
  not_ready?: string[]
}

/**
 * Tells a native worker what it must know before it consumes these queues (docs/architecture.md §5). Declares
 * the queues where that is allowed, and records them, and the worker if it gives its id. Throws 400 for an
 * invalid queue name; 503. `heardOn`: the queue whose control queue the question came by. The control queue
 * of `default` is there for questions about any queue (seed 002 has none that is nobody's).
 */
export async function sync(
  deps: Deps,
  request: SyncRequest,
  heardOn = DEFAULT_QUEUE,
): Promise<Synchronised> {
  const { worker_id: workerId, queues, rung_ms: retryQueueMs } = request
  for (const queue of queues) {
    checkQueueName(queue, deps.settings.prefix, 'queues')
    const isInScope = heardOn === DEFAULT_QUEUE || (scopeOf(deps, heardOn) ?? queue) === queue
    if (!isInScope) throw invalidField('queues', elsewhere(queue))
  }
  const directive = workerId == null ? 'running' : deps.workers.joined(workerId, queues)
  const notReady = await ensureAll(deps, queues)
  // The worker found a retry queue missing. Only the ledger knows which jobs' messages were lost with it,
  // so the gateway checks each queue's retry queue, as `ensureAll` does with the queues.
  if (retryQueueMs != null)
    await forEach(queues, (queue) => deps.broker.recheckRetryQueue(queue, retryQueueMs))
  const { cancelled, truncated } = await deps.ledger.read.tombstones(queues, MAX_TOMBSTONES)
  // A job that was retried and cancelled again is there twice.
  const upTo = new Map<string, number>()
  for (const { id, generation } of cancelled) upTo.set(id, Math.max(generation, upTo.get(id) ?? 0))
  const later = [...upTo].filter(([, generation]) => generation > 0)
  return {
    tombstones: [...upTo.keys()],
    ...(later.length > 0 && { generations: Object.fromEntries(later) }),
    truncated,
    paused: queues.filter((queue) => isPaused(deps, queue)),
    directive,
    ...(notReady.length > 0 && { not_ready: notReady }),
  }
}

function elsewhere(queue: string): string {
  return `Ask about the queue '${queue}' on its own control queue, or on that of 'default'.`
}

/**
 * Checks or declares every queue, and returns those that are not ready. Does not trust earlier checks: a
 * worker whose queue is gone syncs before it declares the queue itself, because only the ledger knows which
 * job messages were in it.
 */
async function ensureAll(deps: Deps, queues: readonly string[]): Promise<string[]> {
  const until = performance.now() + BROKER_WAIT_MS
  const outcomes = await forEach(queues, (queue) => ensure(deps, queue, until))
  const missing = queues.flatMap((queue, i) => {
    const outcome = outcomes[i]
    // A lossy queue takes no new jobs, but its workers may empty it.
    return outcome === 'ready' || outcome === 'lossy' ? [] : [{ queue, outcome }]
  })
  if (missing.length === 0) return []
  const fields = { queues: missing.slice(0, MAX_NAMED), count: missing.length }
  deps.logger.warn(fields, 'queues of a native worker are not ready')
  // `unavailable`: RabbitMQ could not be asked, and most often the queue is well. A worker that is told
  // "not ready" would stay away from it; without that, it finds out as soon as it consumes.
  return missing.flatMap(({ queue, outcome }) => (outcome === 'unavailable' ? [] : [queue]))
}

function forEach<T>(queues: readonly string[], ask: (queue: string) => Promise<T>): Promise<T[]> {
  const slots = new Slots(QUEUES_AT_ONCE)
  return Promise.all(queues.map((queue) => slots.run(() => ask(queue))))
}

/**
 * Checks or declares one queue, and records it when it is ready. After an outage the gateway's consume
 * connection is often back before the declare connection, just when all workers sync; so this waits a moment
 * while RabbitMQ cannot be asked yet.
 */
async function ensure(deps: Deps, queue: string, until: number) {
  let outcome = await deps.broker.recheckQueue(queue)
  if (outcome === 'unavailable' && (await isBack(deps, until))) {
    outcome = await deps.broker.recheckQueue(queue)
  }
  if (outcome === 'ready' || outcome === 'lossy')
    await deps.ledger.recordQueue(queue, deps.clock.now())
  return outcome
}

async function isBack({ broker }: Deps, until: number): Promise<boolean> {
  while (broker.status().state === 'down') {
    if (performance.now() >= until) return false
    await sleep(LOOK_AGAIN_MS)
  }
  return true
}
