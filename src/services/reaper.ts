/** Ends leases that ran out and attempts that ran too long. */
import type { JobRow } from '../job/job.ts'
import { timeoutFailure, visibilityFailure } from '../job/retry/failure.ts'
import type { Deps } from '../operations/deps.ts'
import { type Fault, Ruling } from '../operations/lease/fail-lease.ts'
import { systemPass } from '../telemetry/tracing.ts'
import { extendLeases } from './lease-extension.ts'
import { Loop } from './loop.ts'

/** Short, so that timeouts of a few seconds are exact (OJS core). The scan is one index read. */
const INTERVAL_MS = 100
const PAGE = 200
/** No look for this long: the process stood still. Its timers now run before the requests that it missed. */
const STANDSTILL_MS = 5_000
/** The same, but not so long that a worker that lives has given up its request: it waits at the port. */
const STALL_MS = 500

/**
 * Ends leases that ran out (docs/architecture.md §2). The execution timeout is judged first: both default to
 * 30 s, and a silent job should fail by its retry policy instead of being leased again and again. Leases of
 * native workers are left alone until the control backlog is consumed, which may hold their reports
 * (docs/architecture.md §2, "Restart"). After the process stood still (a paused container), all leases are extended
 * first, because no worker could renew its lease in that time. After a shorter stall nothing ends for as long again:
 * the ACKs and heartbeats that came meanwhile are handled first.
 */
export function reaper(deps: Deps): Loop {
  // `performance.now()`, not the clock of `deps`: a test that sets that clock ahead is no standstill.
  let lookedAt = Number.POSITIVE_INFINITY
  let restsUntil = Number.NEGATIVE_INFINITY
  return new Loop({
    name: 'reaper',
    everyMs: INTERVAL_MS,
    logger: deps.logger,
    runOnce: async () => {
      const stoodMs = performance.now() - lookedAt
      if (stoodMs > STANDSTILL_MS) await extendLeases(deps)
      else if (stoodMs > STALL_MS) restsUntil = performance.now() + stoodMs
      try {
        return performance.now() >= restsUntil && (await reapOnce(deps))
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
  const which = deps.broker.controlBacklogConsumed() ? 'all' : 'not native'
  const ruling = new Ruling(deps, (row) => faultOf(row, now))
  const ended = await deps.ledger.endOverdue({ now, limit: PAGE, which }, ruling.decide())
  if (ended.length === 0) return false
  await systemPass('ojs.reaper.check', async () => {
    await Promise.all(ended.map((one) => ruling.conclude(one)))
    return ended.length
  })
  return true
}

/** What is wrong with an attempt whose time is over; null: it has been extended since. */
function faultOf(row: JobRow, now: number): Fault | null {
  if (leaseEndsAt(row) > now) return null
  const isTimeout = row.timeoutAt !== null && row.timeoutAt <= now
  const failure = isTimeout
    ? timeoutFailure(row.timeoutMs, now - (row.startedAt ?? now))
    : visibilityFailure()
  const cause = { reason: isTimeout ? 'timeout' : 'lease_expired' }
  // A native worker watches the execution timeout itself.
  return { failure, cause, isLost: !isTimeout || row.holder === 'native' }
}

function leaseEndsAt({ leaseExpiresAt, timeoutAt }: JobRow): number {
  return Math.min(leaseExpiresAt ?? Infinity, timeoutAt ?? Infinity)
}
