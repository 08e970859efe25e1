/** Looks now and then for queues that nobody uses any more. */
import type { Deps } from '../operations/deps.ts'
import { forgetIdleQueues } from '../operations/queues/idle-queues.ts'
import { Loop } from './loop.ts'

const MIN_INTERVAL_MS = 250
const MAX_INTERVAL_MS = 600_000

/** Forgets queues that nobody has used for `idleMs`. */
export function idleQueues(deps: Deps, idleMs: number): Loop {
  return new Loop({
    name: 'idle queues',
    everyMs: Math.min(Math.max(MIN_INTERVAL_MS, idleMs / 4), MAX_INTERVAL_MS),
    logger: deps.logger,
    runOnce: async (isStopped) => {
      await forgetIdleQueues(deps, idleMs, isStopped)
      return false
    },
  })
}
