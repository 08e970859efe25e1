import type { Delivery } from '../../broker/broker.ts'
import { jsonOrNull } from '../../job/json-value.ts'
import { type JobRateLimit, rateLimitOf } from '../../job/rate-limit.ts'
import type { Deps } from '../deps.ts'
import { isTooLarge } from '../enqueue/adopt.ts'

/** A job that waits for its turn is looked at again after so long, whatever has become of it. */
const MAX_HOLD_MS = 60_000

/**
 * The limit under which a delivery's start was counted. It is kept because the content that names
 * it is forgotten by the time the delivery comes back.
 */
const limits = new WeakMap<Delivery, JobRateLimit>()

/**
 * Those that may start now. Jobs with a `rate_limit` whose turn has not come are kept aside, so that
 * what is behind them is not held up; plain jobs cost one look at their body.
 */
export function withinLimits(deps: Deps, deliveries: Delivery[]): Delivery[] {
  if (!deliveries.some(mayBeLimited)) return deliveries
  return deliveries.filter((delivery) => mayStart(deps, delivery))
}

/** It was not started after all: its turn is another's. */
export function takeBackStart(deps: Deps, delivery: Delivery): void {
  const limit = limits.get(delivery)
  if (!limit) return
  limits.delete(delivery)
  deps.startLimits.takeBack(limit)
}

function mayBeLimited(delivery: Delivery): boolean {
  return delivery.mayBeLimited() || limits.has(delivery)
}

function mayStart(deps: Deps, delivery: Delivery): boolean {
  const limit = limits.get(delivery) ?? (delivery.mayBeLimited() ? limitOf(deps, delivery) : null)
  if (limit === null) return true
  if (deps.startLimits.start(limit, delivery)) {
    limits.set(delivery, limit)
    return true
  }
  deps.broker.park(delivery, deps.clock.now() + MAX_HOLD_MS)
  return false
}

/** What is no job has no limit: the claim sees to it. */
function limitOf(deps: Deps, delivery: Delivery): JobRateLimit | null {
  if (isTooLarge(deps, delivery)) return null
  const { message, queue } = delivery
  return rateLimitOf(jsonOrNull(message.content), queue)
}
