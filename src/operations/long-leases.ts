import type { LeaseFence } from '../ledger/leases.ts'
import type { Deps } from './deps.ts'

/** The broker looks at its delivery timeout once a minute. */
const DELIVERY_TIMEOUT_MARGIN_MS = 120_000

interface Lease extends LeaseFence {
  queue: string
  startedAt: number | null
  leaseExpiresAt: number | null
}

/**
 * RabbitMQ closes a channel that holds a delivery longer than its delivery timeout, and our channels
 * of a queue hold only so many. A lease that reaches there, at its claim or by a heartbeat, and one of
 * a queue that we hold nearly all we can of, lives in the ledger alone: commit first, then
 * acknowledge. Never rejects: the lease stands either way.
 */
export async function acknowledgeEarly(deps: Deps, leases: readonly Lease[]): Promise<void> {
  const limit = deps.settings.deliveryTimeoutMs - DELIVERY_TIMEOUT_MARGIN_MS
  const early = leases.flatMap((lease) => {
    const delivery = deps.held.get(lease.id)
    const isWanted = lengthMs(lease) > limit || deps.broker.isCrowded(lease.queue)
    return delivery && isWanted ? [{ lease, delivery }] : []
  })
  if (early.length === 0) return
  try {
    await deps.ledger.handOver(early.map(({ lease }) => lease))
  } catch (err) {
    // The deliveries stay, and the leases go on.
    deps.logger.warn({ err, jobs: early.length }, 'leases could not be handed over')
    return
  }
  for (const { lease, delivery } of early) {
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
