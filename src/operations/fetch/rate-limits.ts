/** Applies `rate_limit` to deliveries: those over the limit are parked, the others may start. */
import type { Delivery } from '../../broker/broker.ts'
import { type JobRateLimit, rateLimitOf } from '../../job/rate-limit.ts'
import { jsonOrNull } from '../../job/values/json-value.ts'
import { isTooLarge } from '../adopt/adopt.ts'
import type { Deps } from '../deps.ts'

/** A parked job is checked again after this time at the latest, even if nothing released it. */
const MAX_HOLD_MS = 60_000

/**
 * The limit under which a delivery's start was counted. It cannot be read from the delivery again: a claim
 * drops the content (`forgetContent`), and the delivery may come back after that.
 */
const countedLimits = new WeakMap<Delivery, JobRateLimit>()

/**
 * Returns the deliveries whose jobs may start now. Parks those whose `rate_limit` is used up, so that they
 * do not hold up the jobs behind them. A job without a limit costs one scan of its body.
 */
export function withinLimits(deps: Deps, deliveries: Delivery[]): Delivery[] {
  if (!deliveries.some(mayBeLimited)) return deliveries
  return deliveries.filter((delivery) => mayStart(deps, delivery))
}

/** Undoes the count of a start that did not happen, so that another job may start in its place. */
export function takeBackStart(deps: Deps, delivery: Delivery): void {
  const limit = countedLimits.get(delivery)
  if (!limit) return
  countedLimits.delete(delivery)
  deps.startLimits.takeBack(limit)
}

function mayBeLimited(delivery: Delivery): boolean {
  return delivery.mayBeLimited() || countedLimits.has(delivery)
}

function mayStart(deps: Deps, delivery: Delivery): boolean {
  const limit =
    countedLimits.get(delivery) ?? (delivery.mayBeLimited() ? limitOf(deps, delivery) : null)
  if (limit === null) return true
  if (deps.startLimits.start(limit, delivery)) {
    countedLimits.set(delivery, limit)
    return true
  }
  const forget = () => deps.startLimits.forget(limit, delivery.id)
  deps.broker.park(delivery, deps.clock.now() + MAX_HOLD_MS, forget)
  return false
}

/** Returns null for a job without a limit, and for a body that is no job: the claim refuses that one. */
function limitOf(deps: Deps, delivery: Delivery): JobRateLimit | null {
  if (isTooLarge(deps, delivery)) return null
  const { message, queue } = delivery
  return rateLimitOf(jsonOrNull(message.content), queue)
}
