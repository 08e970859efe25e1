/** Delays of retries (OJS retry), from a bounded set: each distinct delay is another queue in RabbitMQ. */

/** The retry queues of jittered delays (docs/architecture.md §4.3), ms. */
export const LADDER_MS: readonly number[] = [
  ...[125, 175, 250, 350, 500, 700, 1_000, 1_400, 2_000, 2_800, 4_000, 5_600, 8_000, 11_000],
  ...[16_000, 22_000, 32_000, 45_000, 60_000, 90_000, 120_000, 180_000, 240_000, 300_000],
]

/** For longer delays there is no retry queue: the ledger holds the job. */
const LONGEST_RETRY_QUEUE_MS = 300_000

/**
 * The routing key of a retry queue (seed 002 §8.2). The delay follows the last dot: queue names may hold
 * dots.
 */
export function retryQueueKey(queue: string, delayMs: number): string {
  return `${queue}.${delayMs}`
}

/** The part of a retry policy that decides the delay; intervals in whole ms, `coefficient` at least 1. */
export interface BackoffPolicy {
  strategy: 'exponential' | 'linear' | 'polynomial' | 'none'
  initialMs: number
  coefficient: number
  maxMs: number
  jitter: boolean
}

export interface ChosenDelay {
  /** Whole ms, at least 1, never above `maxMs`. The client is told this delay, and this delay passes. */
  delayMs: number
  /** The retry queue's delay, always equal to `delayMs`; null: the ledger holds the job. */
  retryQueueMs: number | null
}

/**
 * Chooses the delay after failed attempt `attempt` (1-based). `random` returns [0, 1); it is called only when
 * the policy wants jitter.
 */
export function chooseDelay(
  policy: BackoffPolicy,
  attempt: number,
  random: () => number,
): ChosenDelay {
  // `growth` may overflow to Infinity for a large attempt; `maxMs` bounds it.
  const computedMs = Math.max(1, Math.min(growth(policy, attempt), policy.maxMs))
  return policy.jitter
    ? jittered(computedMs, policy.maxMs, random)
    : exact(computedMs, policy.maxMs)
}

function growth({ strategy, initialMs, coefficient }: BackoffPolicy, attempt: number): number {
  switch (strategy) {
    case 'exponential':
      return initialMs * coefficient ** (attempt - 1)
    case 'linear':
      return initialMs * attempt
    case 'polynomial':
      return initialMs * attempt ** coefficient
    case 'none':
      return initialMs
  }
}

/** Rounds up to two significant digits: at most 10 % late, and about 500 possible delays in all. */
function exact(computedMs: number, maxMs: number): ChosenDelay {
  const wholeMs = ceilMs(computedMs)
  if (wholeMs > LONGEST_RETRY_QUEUE_MS) return held(wholeMs)
  const unit = 10 ** Math.max(0, String(wholeMs).length - 2)
  // The producer's maximum wins over the rounding. It is one number per policy, so that this too cannot make
  // a queue for each attempt.
  return onRetryQueue(Math.min(Math.ceil(wholeMs / unit) * unit, maxMs))
}

/** Draws uniformly from [0.5, 1.5) × computed, then takes one of the two neighbouring retry queues. */
function jittered(computedMs: number, maxMs: number, random: () => number): ChosenDelay {
  const drawnMs = Math.min(computedMs * (0.5 + random()), maxMs)
  // The ledger can wait for any number of ms, so a drawn delay above the ladder is used as it is. (Rounding
  // down to the top retry queue would gather the delays between 300 s and 450 s at one instant.)
  if (drawnMs > LONGEST_RETRY_QUEUE_MS) return held(ceilMs(drawnMs))
  const fits = (retryQueue: number) =>
    retryQueue >= computedMs * 0.5 && retryQueue < computedMs * 1.5 && retryQueue <= maxMs
  const above = LADDER_MS.find((retryQueue) => retryQueue >= drawnMs) ?? LONGEST_RETRY_QUEUE_MS
  const below = LADDER_MS.findLast((retryQueue) => retryQueue <= drawnMs) ?? 0
  if (fits(below) && fits(above)) return onRetryQueue(nearer(below, above, drawnMs, random))
  if (fits(below)) return onRetryQueue(below)
  // Neither fits only if the delay is below the ladder: take the next retry queue up, or `maxMs` if that is
  // less.
  return onRetryQueue(fits(above) ? above : Math.min(above, maxMs))
}

/**
 * Picks one of two retry queues at random, in such proportion that the mean stays that of the drawn delays.
 */
function nearer(below: number, above: number, drawnMs: number, random: () => number): number {
  return random() * (above - below) < drawnMs - below ? above : below
}

/** Rounds up, after cutting the noise of doubles: 100 × 1.1 is 110.00000000000001, but means 110 ms. */
function ceilMs(ms: number): number {
  return Math.ceil(Number(ms.toPrecision(12)))
}

function onRetryQueue(delayMs: number): ChosenDelay {
  return { delayMs, retryQueueMs: delayMs }
}

function held(delayMs: number): ChosenDelay {
  return { delayMs, retryQueueMs: null }
}
