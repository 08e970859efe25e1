/** Deliveries that RabbitMQ would take back are acknowledged early; the ledger then holds the lease. */
import type { LeaseFence } from '../../ledger/leases.ts'
import type { Deps } from '../deps.ts'

/** RabbitMQ checks its delivery timeout only once a minute, so the gateway stays well below it. */
const DELIVERY_TIMEOUT_MARGIN_MS = 120_000

interface Lease extends LeaseFence {
  queue: string
  startedAt: number | null
  leaseExpiresAt: number | null
}

/**
 * Hands leases over to the ledger whose deliveries cannot stay unacknowledged: those that would pass
 * RabbitMQ's delivery timeout, after which RabbitMQ closes the channel, and those of a queue whose channels
 * hold nearly as many deliveries as they may. Called for each claim and heartbeat. Never rejects: the
 * lease stands either way.
 */
export async function acknowledgeEarly(deps: Deps, leases: readonly Lease[]): Promise<void> {
  const limit = deps.settings.deliveryTimeoutMs - DELIVERY_TIMEOUT_MARGIN_MS
  const early = leases.filter((lease) => {
    return (
      deps.jobMessages.held.has(lease.id) &&
      (lengthMs(lease) > limit || deps.broker.isCrowded(lease.queue))
    )
  })
  if (early.length === 0) return
  try {
    await handOver(deps, early)
  } catch (err) {
    // Nothing is lost: the deliveries stay unacknowledged, and the leases go on.
    deps.logger.warn({ err, jobs: early.length }, 'leases could not be handed over to the ledger')
  }
}

/**
 * Makes the ledger the only holder of these leases: commits `holder := ledger`, then acknowledges their
 * deliveries. After a crash in between, RabbitMQ redelivers the job message and the arrival table drops it. A
 * lease whose delivery is dead stays as it is: RabbitMQ has its message and will deliver it again, and a row
 * with holder `ledger` would count that message as gone when the job ends. Returns how many leases were
 * handed over. Rejects when the ledger cannot be written.
 */
export async function handOver(deps: Deps, leases: readonly LeaseFence[]): Promise<number> {
  const live = leases.flatMap((lease) => {
    const delivery = deps.jobMessages.held.get(lease.id)
    return delivery?.isLive() ? [{ lease, delivery }] : []
  })
  if (live.length === 0) return 0
  const count = await deps.ledger.handOver(live.map(({ lease }) => lease))
  const lost = live.flatMap(({ lease, delivery }) => {
    // During the commit the lease may have ended, and the job may have been claimed with another delivery.
    if (deps.jobMessages.held.get(lease.id) !== delivery) return []
    deps.jobMessages.held.delete(lease.id)
    return delivery.ack() === 'lost' ? [lease] : []
  })
  if (lost.length > 0) await deps.ledger.handBack(lost)
  return count - lost.length
}

/** Counted from the claim. The time before, in which the delivery was in a buffer or parked, is left out. */
function lengthMs({ startedAt, leaseExpiresAt }: Lease): number {
  return startedAt === null || leaseExpiresAt === null ? 0 : leaseExpiresAt - startedAt
}
