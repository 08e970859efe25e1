/** Forgets queues that nobody has used for long, in RabbitMQ and in the ledger. */
import type { Deps } from '../deps.ts'

/**
 * Forgets queues that were idle for `idleMs`: deletes them in RabbitMQ, and their names in the ledger. A job
 * that is stored at that moment declares its queue anew. Throws 503 when the ledger cannot be read.
 */
export async function forgetIdleQueues(
  deps: Deps,
  idleMs: number,
  isStopped: () => boolean,
): Promise<void> {
  const { broker, clock, ledger, workers } = deps
  if (deps.pruneHold.isHeld) return
  const withWorkers = workers.queues()
  const isUsed = (queue: string) => withWorkers.has(queue) || broker.removal.isPermanent(queue)
  const idle = await ledger.idle.look(clock.now(), idleMs, isUsed)
  for (const queue of idle) {
    if (isStopped() || broker.status().state !== 'up') return
    const isForgotten = await broker.removal.forget(queue, {
      isIdle: () => ledger.known.idle.isIdle(queue),
      forget: () => forget(deps, queue),
    })
    if (isForgotten) deps.logger.info({ queue }, 'idle queue forgotten and deleted')
  }
}

async function forget({ clock, ledger }: Deps, queue: string): Promise<boolean> {
  // As for a queue that was lost: its job messages will not come back, and a job stored meanwhile needs a new
  // one.
  await ledger.rearm(queue, clock.now())
  await ledger.unwritten.settle(queue)
  return await ledger.idle.forget(queue)
}
