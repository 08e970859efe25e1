/** Looks for due cron entries ten times a second. */
import { type Missed, tellMissed } from '../operations/cron/missed.ts'
import { fireDue, releaseQueued, returnFromAhead } from '../operations/cron/ticks.ts'
import type { Deps } from '../operations/deps.ts'
import { isInMaintenance } from '../operations/maintenance.ts'
import { systemPass } from '../telemetry/tracing.ts'
import { Loop } from './loop.ts'
import { reportsOut } from './reports-out.ts'

/**
 * A tick may be this late. Each look is two index reads. The loop does not sleep until the next tick, because
 * the wall clock may be set in the meantime.
 */
const INTERVAL_MS = 100

/** Entries whose missed times are counted in one pass, a millisecond each; the jobs have to be published too. */
const TOLD_AT_ONCE = 50
/** Entries whose missed times may wait until they are counted. */
const MAX_UNTOLD = 10_000

/** How long a time waits that its entry's job before would prevent, as that may have ended natively without having been heard. */
const MOST_UNHEARD_MS = 10_000

/** Enqueues the jobs of cron entries when their time comes (seed 001 §13). */
export function cron(deps: Deps): Loop {
  let seenWall = Number.POSITIVE_INFINITY
  const untold: Missed[] = []
  const areReportsOut = reportsOut(deps, MOST_UNHEARD_MS)
  return new Loop({
    name: 'cron',
    everyMs: INTERVAL_MS,
    isDueAtStart: true,
    logger: deps.logger,
    runOnce: async () => {
      // Entries stay due: after the maintenance each of them catches up with one job.
      if (isInMaintenance(deps)) return false
      const wall = deps.clock.wall()
      if (wall < seenWall) await returnFromAhead(deps)
      seenWall = wall
      return await cronOnce(deps, untold, areReportsOut())
    },
  })
}

/** Returns true if there may be more. Missed times are told when nothing is due, or too many are untold. */
async function cronOnce(deps: Deps, untold: Missed[], areReportsOut: boolean): Promise<boolean> {
  const isDue = (await deps.ledger.read.cron.due(deps.clock.wall(), 1)).length > 0
  const fire = () => fireDue(deps, untold, areReportsOut)
  const fired = isDue ? await systemPass('ojs.cron.trigger', fire) : 0
  await tellMissed(deps, untold.splice(0, fired > 0 ? untold.length - MAX_UNTOLD : TOLD_AT_ONCE))
  await releaseQueued(deps)
  return fired > 0
}
