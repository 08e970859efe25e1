import { fireDue, releaseQueued, returnFromAhead } from '../operations/cron-ticks.ts'
import type { Deps } from '../operations/deps.ts'
import { systemPass } from '../telemetry/tracing.ts'
import { Loop } from './loop.ts'

/**
 * A tick may be this late. Each look is two index reads. The loop does not sleep until the next tick, because
 * the wall clock may be set in the meantime.
 */
const INTERVAL_MS = 100

/** Enqueues the jobs of cron entries when their time comes (seed 001 §13). */
export function cron(deps: Deps): Loop {
  let seenWall = Number.POSITIVE_INFINITY
  return new Loop({
    name: 'cron',
    everyMs: INTERVAL_MS,
    isDueAtStart: true,
    logger: deps.logger,
    runOnce: async () => {
      const wall = deps.clock.wall()
      if (wall < seenWall) await returnFromAhead(deps)
      seenWall = wall
      return await cronOnce(deps)
    },
  })
}

/** Returns true if there may be more. */
async function cronOnce(deps: Deps): Promise<boolean> {
  const isDue = deps.ledger.cron.due(deps.clock.wall(), 1).length > 0
  const fired = isDue ? await systemPass('ojs.cron.trigger', () => fireDue(deps)) : 0
  await releaseQueued(deps)
  return fired > 0
}
