/** Looks now and then at the lines of all concurrency keys. */
import type { Deps } from '../operations/deps.ts'
import { reviewLines } from '../operations/held-jobs.ts'
import { Loop } from './loop.ts'

const INTERVAL_MS = 30_000

/** Lets jobs go whose key has room and that no write has let go. */
export function heldJobs(deps: Deps): Loop {
  return new Loop({
    name: 'held jobs',
    everyMs: INTERVAL_MS,
    isDueAtStart: true,
    logger: deps.logger,
    runOnce: async (isStopped) => {
      await reviewLines(deps, isStopped)
      return false
    },
  })
}
