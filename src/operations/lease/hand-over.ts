import type { LeaseFence } from '../../ledger/leases.ts'
import type { Deps } from '../deps.ts'

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
 * a queue that we hold nearly all we can of, is handed over. Never rejects: the lease stands either way.
 */
export async function acknowledgeEarly(deps: Deps, leases: readonly Lease[]): Promise<void> {
  const limit = deps.settings.deliveryTimeoutMs - DELIVERY_TIMEOUT_MARGIN_MS
  const early = leases.filter((lease) => {
    return (
      deps.tokens.held.has(lease.id) &&
      (lengthMs(lease) > limit || deps.broker.isCrowded(lease.queue))
    )
  })
  if (early.length === 0) return
  try {
    await handOver(deps, early)
  } catch (err) {
    // The deliveries stay, and the leases go on.
    deps.logger.warn({ err, jobs: early.length }, 'leases could not be handed over')
  }
}

/**
 * From now on these leases live in the ledger alone: commit first, then acknowledge their deliveries; a
 * crash in between gives a token that is only dropped. Where the delivery is dead, RabbitMQ has the
 * token and gives it out again: the lease stays as it is, or the token would count for gone at the
 * end of the job. Returns how many were handed over. Rejects where the ledger cannot be written.
 */
export async function handOver(deps: Deps, leases: readonly LeaseFence[]): Promise<number> {
  const live = leases.flatMap((lease) => {
    const delivery = deps.tokens.held.get(lease.id)
    return delivery?.isLive() ? [{ lease, delivery }] : []
  })
  if (live.length === 0) return 0
  const count = await deps.ledger.handOver(live.map(({ lease }) => lease))
  const lost = live.flatMap(({ lease, delivery }) => {
    // Meanwhile the lease may have ended, and the job been claimed again with another delivery.
    if (deps.tokens.held.get(lease.id) !== delivery) return []
    deps.tokens.held.delete(lease.id)
    return delivery.ack() === 'lost' ? [lease] : []
  })
  if (lost.length > 0) await deps.ledger.handBack(lost)
  return count - lost.length
}

/** From the claim on, which is when the delivery was taken from the buffer at the latest. */
function lengthMs({ startedAt, leaseExpiresAt }: Lease): number {
  return startedAt === null || leaseExpiresAt === null ? 0 : leaseExpiresAt - startedAt
}
