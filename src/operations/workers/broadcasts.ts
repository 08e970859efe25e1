/** Broadcasts to the native workers of a queue: cancel, directive, pause. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { PublishOutcome } from '../../broker/broker.ts'
import type { Deps } from '../deps.ts'
import type { Directive } from './worker-registry.ts'

/** A request waits no longer than this for a confirm; an unconfirmed broadcast is repeated later. */
const BROADCAST_WAIT_MS = 1_000

/*
 * Broadcasts to the workers of a queue (docs/architecture.md §5). RabbitMQ confirms a broadcast even if no
 * worker listens. None of these functions rejects.
 */

/** Tells workers to drop or abort the job; a later generation of it may run. */
export function broadcastCancel(
  deps: Pick<Deps, 'broker'>,
  { id, queue, generation }: { id: string; queue: string; generation: number },
): Promise<PublishOutcome> {
  return deps.broker.broadcast({
    queue,
    type: 'ojs.control.cancel',
    body: JSON.stringify({ job_id: id, generation }),
  })
}

/** Tells workers of a new job that has the id of an erased one, whose message may still come: never generation 0. */
export function broadcastReuse(
  deps: Pick<Deps, 'broker'>,
  { id, queue, generation }: { id: string; queue: string; generation: number },
): void {
  void broadcastCancel(deps, { id, queue, generation: generation - 1 })
}

/** Sends an operator's directive to one worker of this queue, or to all (`workerId` null). */
export function broadcastDirective(
  deps: Pick<Deps, 'broker'>,
  told: { queue: string; workerId: string | null; state: Exclude<Directive, 'running'> },
): Promise<PublishOutcome> {
  const { queue, workerId, state } = told
  return deps.broker.broadcast({
    queue,
    type: 'ojs.control.directive',
    body: JSON.stringify({ ...(workerId !== null && { worker_id: workerId }), state }),
  })
}

/** Tells workers that the queue was paused or resumed. */
export function broadcastPause(
  deps: Pick<Deps, 'broker'>,
  { queue, isPaused }: { queue: string; isPaused: boolean },
): Promise<PublishOutcome> {
  const type = isPaused ? 'ojs.control.pause' : 'ojs.control.resume'
  return deps.broker.broadcast({ queue, type, body: JSON.stringify({ queue }) })
}

/** Settles as `sent` does, or resolves with undefined after `BROADCAST_WAIT_MS`. */
export async function briefly<T>(sent: Promise<T>): Promise<T | undefined> {
  return await Promise.race([sent, sleep(BROADCAST_WAIT_MS, undefined, { ref: false })])
}
