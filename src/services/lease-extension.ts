/** Leases outlive a restart: extended at the start, handed over to the ledger at the stop. */
import type { Service } from '../lifecycle.ts'
import type { Deps } from '../operations/deps.ts'
import { handOver } from '../operations/lease/hand-over.ts'

/**
 * Keeps leases across restarts (docs/architecture.md §2, "Restart"). They live on in the ledger. At start
 * they are extended, because no worker could renew its lease in the meantime. A graceful stop acknowledges
 * the deliveries of leased jobs, so that RabbitMQ does not deliver a running job to another worker.
 */
export function leaseKeeper(deps: Deps): Service {
  let isStarted = false
  return {
    name: 'lease keeper',
    async start() {
      isStarted = true
      const jobs = await deps.ledger.boundWaits(deps.clock.now())
      if (jobs > 0) deps.logger.warn({ jobs }, 'clock was set back: retries and leases shortened')
      await extendLeases(deps)
    },
    async stop() {
      if (!isStarted) return
      isStarted = false
      await handOverHeld(deps)
    },
  }
}

/** Extends leases to now + their own length at least: at start, after a reconnect and after `unblocked`. */
export async function extendLeases(deps: Deps): Promise<void> {
  const leases = await deps.ledger.extendLeases(deps.clock.now())
  if (leases > 0) deps.logger.info({ leases }, 'leases extended')
}

/**
 * Only for deliveries that are held here. The job message of any other lease is settled, or RabbitMQ has it.
 */
async function handOverHeld(deps: Deps): Promise<void> {
  const held = await deps.ledger.read.standings([...deps.jobMessages.held.keys()])
  const leases = await handOver(deps, [...held.values()])
  deps.jobMessages.held.clear()
  if (leases > 0) deps.logger.info({ leases }, 'leases handed over to the ledger')
}
