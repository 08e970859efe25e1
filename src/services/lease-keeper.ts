import type { Service } from '../lifecycle.ts'
import type { Deps } from '../operations/deps.ts'

/**
 * Leases across restarts (architecture §2, "Restart"). They live on in the ledger: time in which
 * nobody could renew does not count, and a graceful stop acknowledges what is leased, so that the
 * broker does not give a running job to somebody else.
 */
export function leaseKeeper(deps: Deps): Service {
  let isStarted = false
  return {
    name: 'lease keeper',
    async start() {
      isStarted = true
      const jobs = await deps.ledger.boundWaits(deps.clock.now())
      if (jobs > 0) deps.logger.warn({ jobs }, 'the clock was set back: retries and leases moved')
      await extendLeases(deps)
    },
    async stop() {
      if (!isStarted) return
      isStarted = false
      await handOverLeases(deps)
    },
  }
}

/** At start, after a reconnect and after `unblocked`. */
export async function extendLeases(deps: Deps): Promise<void> {
  const leases = await deps.ledger.extendLeases(deps.clock.now())
  if (leases > 0) deps.logger.info({ leases }, 'leases extended')
}

/** Commit first, then acknowledge: a crash in between gives a token that is only dropped. */
async function handOverLeases(deps: Deps): Promise<void> {
  const leases = await deps.ledger.handOverAll()
  for (const delivery of deps.held.values()) delivery.ack()
  deps.held.clear()
  if (leases > 0) deps.logger.info({ leases }, 'leases handed over to the ledger')
}
