/** Ends leases that ran out and attempts that ran too long. */
import type { JobRow } from '../job/job.ts'
import { mayHaveMore } from '../job/page.ts'
import { timeoutFailure, visibilityFailure } from '../job/retry/failure.ts'
import type { Deps } from '../operations/deps.ts'
import { endLostLease, type FailedAttempt, failLease } from '../operations/lease/fail-lease.ts'
import { systemPass } from '../telemetry/tracing.ts'
import { extendLeases } from './lease-extension.ts'
import { Loop } from './loop.ts'

/** Short, so that timeouts of a few seconds are exact (OJS core). The scan is one index read. */
const INTERVAL_MS = 100
const PAGE = 200
/** No look for this long: the process stood still. Its timers now run before the requests that it missed. */
const STANDSTILL_MS = 5_000

/**
 * Ends leases that ran out (docs/architecture.md §2). The execution timeout is judged first: both default to
 * 30 s, and a silent job should fail by its retry policy instead of being leased again and again. Leases of
 * native workers are left alone until the control backlog is consumed, which may hold their reports
 * (docs/architecture.md §2, "Restart"). After the process stood still (a paused container), all leases are extended
 * first, because no worker could renew its lease in that time.
 */
export function reaper(deps: Deps): Loop {
  // `performance.now()`, not the clock of `deps`: a test that sets that clock ahead is no standstill.
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
        // Counts as a look even if a lease cannot be ended. A ledger that cannot be written takes no
        // heartbeats either, so that time is a standstill.
        if (deps.ledger.known.fault() === null) lookedAt = performance.now()
      }
    },
  })
}

/** Ends one page of overdue leases. Returns true if there may be more. */
async function reapOnce(deps: Deps): Promise<boolean> {
  const now = deps.clock.now()
  const rows = await deps.ledger.read.overdue(
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
  const cause = { reason: isTimeout ? 'timeout' : 'lease_expired' }
  const attempt: FailedAttempt = { row, failure, overdueAt: now, cause }
  // A native worker watches the execution timeout itself.
  const mustFail = isTimeout && row.holder !== 'native'
  await (mustFail ? failLease(deps, attempt) : endLostLease(deps, attempt))
}
