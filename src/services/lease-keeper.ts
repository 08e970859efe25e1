import type { Service } from '../lifecycle.ts'
import type { Deps } from '../operations/deps.ts'
import { handOver } from '../operations/lease/hand-over.ts'

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
      await handOverHeld(deps)
    },
  }
}

/** At start, after a reconnect and after `unblocked`. */
export async function extendLeases(deps: Deps): Promise<void> {
  const leases = await deps.ledger.extendLeases(deps.clock.now())
  if (leases > 0) deps.logger.info({ leases }, 'leases extended')
}

/** Of a lease whose delivery is not here, RabbitMQ has the token. */
async function handOverHeld(deps: Deps): Promise<void> {
  const held = [...deps.tokens.held.keys()].flatMap((id) => deps.ledger.standing(id) ?? [])
  const leases = await handOver(deps, held)
  deps.tokens.held.clear()
  if (leases > 0) deps.logger.info({ leases }, 'leases handed over to the ledger')
}
