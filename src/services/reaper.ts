import { timeoutFailure, visibilityFailure } from '../job/failure.ts'
import { allowedAttempts, type JobRow } from '../job/job.ts'
import { mayHaveMore } from '../job/page.ts'
import type { Deps } from '../operations/deps.ts'
import { type FailedAttempt, failLease, returnLease } from '../operations/lease/fail-lease.ts'
import { systemPass } from '../telemetry/tracing.ts'
import { extendLeases } from './lease-keeper.ts'
import { Loop } from './loop.ts'

/** The scan is one index read; timeouts of seconds stay honest (ojs-digest §1.4). */
const INTERVAL_MS = 100
const PAGE = 200
/** So long without a look: the process stood still, and its timers come before what was sent to it. */
const STANDSTILL_MS = 5_000

/**
 * Ends leases that ran out (architecture §2): the execution timeout first, because both default to
 * 30 s and a silent job should fail by its policy instead of going round for ever. Not of native
 * workers before it is known what they have said meanwhile (architecture §2, "Restart"). Nor after a
 * process that stood still (a container that was paused) goes on: nobody could renew in that time.
 */
export function reaper(deps: Deps): Loop {
  // The process's own time: a clock of a test that is set ahead is no standstill.
  let lookedAt = Number.POSITIVE_INFINITY
  return new Loop({
    name: 'reaper',
    everyMs: INTERVAL_MS,
    logger: deps.logger,
    runOnce: async () => {
      if (performance.now() - lookedAt > STANDSTILL_MS) await extendLeases(deps)
      try {
        return await reapOnce(deps)
      } finally {
        // A lease that cannot be ended is no standstill, and a ledger that takes no heartbeats is.
        if (deps.ledger.fault() === null) lookedAt = performance.now()
      }
    },
  })
}

/** True: there may be more. */
async function reapOnce(deps: Deps): Promise<boolean> {
  const now = deps.clock.now()
  const rows = deps.ledger.overdue(
    now,
    PAGE,
    deps.broker.controlBacklogConsumed() ? 'all' : 'not native',
  )
  if (rows.length === 0) return false
  await systemPass('ojs.reaper.check', async () => {
    await Promise.all(rows.map((row) => endLease(deps, row, now)))
    return rows.length
  })
  return mayHaveMore(rows, PAGE)
}

async function endLease(deps: Deps, row: JobRow, now: number): Promise<void> {
  const isTimeout = row.timeoutAt !== null && row.timeoutAt <= now
  const failure = isTimeout
    ? timeoutFailure(row.timeoutMs, now - (row.startedAt ?? now))
    : visibilityFailure()
  const attempt: FailedAttempt = { row, failure, overdueAt: now }
  // A lease that ran out is no verdict on the job: it goes on at once while an attempt is left. With
  // a native worker it may even be going on, or be done: that ends with its report or its token.
  const isNative = row.holder === 'native'
  const mayGoOn = isNative || (!isTimeout && row.attempt < allowedAttempts(row))
  await (mayGoOn ? returnLease(deps, attempt) : failLease(deps, attempt))
}
