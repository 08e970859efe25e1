import type { LeaseFence } from '../ledger/leases.ts'
import type { Deps } from './deps.ts'

/** The broker looks at its delivery timeout once a minute. */
const DELIVERY_TIMEOUT_MARGIN_MS = 120_000

interface Lease extends LeaseFence {
  startedAt: number | null
  leaseExpiresAt: number | null
}

/**
 * RabbitMQ closes a channel that holds a delivery longer than its delivery timeout. A lease that
 * reaches there, at its claim or by a heartbeat, lives in the ledger alone: commit first, then
 * acknowledge. Never rejects: the lease stands either way.
 */
export async function acknowledgeLongLeases(deps: Deps, leases: readonly Lease[]): Promise<void> {
  const limit = deps.settings.deliveryTimeoutMs - DELIVERY_TIMEOUT_MARGIN_MS
  const long = leases.flatMap((lease) => {
    const delivery = deps.held.get(lease.id)
    return delivery && lengthMs(lease) > limit ? [{ lease, delivery }] : []
  })
  if (long.length === 0) return
  try {
    await deps.ledger.handOver(long.map(({ lease }) => lease))
  } catch (err) {
    // The broker will take these deliveries back, and the lease goes on.
    deps.logger.warn({ err, jobs: long.length }, 'long leases could not be handed over')
    return
  }
  for (const { lease, delivery } of long) {
    // Meanwhile the lease may have ended, and the job been claimed again with another delivery.
    if (deps.held.get(lease.id) !== delivery) continue
    delivery.ack()
    deps.held.delete(lease.id)
  }
}

/** From the claim on, which is when the delivery was taken from the buffer at the latest. */
function lengthMs({ startedAt, leaseExpiresAt }: Lease): number {
  return startedAt === null || leaseExpiresAt === null ? 0 : leaseExpiresAt - startedAt
}
