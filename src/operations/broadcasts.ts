import { setTimeout as sleep } from 'node:timers/promises'
import type { PublishOutcome } from '../broker/broker.ts'
import type { Deps } from './deps.ts'
import type { Directive } from './worker-registry.ts'

/** A broker that does not confirm keeps nobody waiting for longer; the outbox owes it then. */
const BROADCAST_WAIT_MS = 1_000

/**
 * What the workers of a queue have to hear (architecture §5). Nobody may be listening, which is a
 * confirm all the same. None of these rejects.
 */

/** The job must not run, or not go on; a later life of it may. */
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

/** What an operator wants of one worker of this queue, or of all (`workerId` null). */
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

/** The queue was paused, or resumed. */
export function broadcastPause(
  deps: Pick<Deps, 'broker'>,
  { queue, isPaused }: { queue: string; isPaused: boolean },
): Promise<PublishOutcome> {
  const type = isPaused ? 'ojs.control.pause' : 'ojs.control.resume'
  return deps.broker.broadcast({ queue, type, body: JSON.stringify({ queue }) })
}

/** Settles with the broadcast, or without its outcome when it has taken long enough. */
export async function briefly<T>(sent: Promise<T>): Promise<T | undefined> {
  return await Promise.race([sent, sleep(BROADCAST_WAIT_MS, undefined, { ref: false })])
}
