/**
 * The delay before a retry (ojs-digest §3.2), and the TTL queue that waits it out. Every delay that
 * a rung serves is one more queue in the broker, so the delays come from a bounded set.
 */

/** The rungs of jittered delays (architecture §4.3), ms. */
export const LADDER_MS: readonly number[] = [
  ...[125, 175, 250, 350, 500, 700, 1_000, 1_400, 2_000, 2_800, 4_000, 5_600, 8_000, 11_000],
  ...[16_000, 22_000, 32_000, 45_000, 60_000, 90_000, 120_000, 180_000, 240_000, 300_000],
]

/** Longer than this the ledger holds the job. */
const TOP_RUNG_MS = 300_000

/** Names a rung: its routing key (seed 002 §8.2). A queue's name may hold dots, a delay holds none. */
export function rungKey(queue: string, delayMs: number): string {
  return `${queue}.${delayMs}`
}

/** The waiting part of a retry policy; intervals in whole ms, `coefficient` at least 1. */
export interface BackoffPolicy {
  strategy: 'exponential' | 'linear' | 'polynomial' | 'none'
  initialMs: number
  coefficient: number
  maxMs: number
  jitter: boolean
}

export interface ChosenDelay {
  /** Whole ms, at least 1, never above `maxMs`: what the client is told, and what really passes. */
  delayMs: number
  /** The rung that serves it, always equal to `delayMs`; null: the ledger holds the job. */
  rungMs: number | null
}

/**
 * The delay after failed attempt `attempt` (1-based). `random` gives [0, 1) and is asked only when
 * the policy wants jitter.
 */
export function chooseDelay(
  policy: BackoffPolicy,
  attempt: number,
  random: () => number,
): ChosenDelay {
  // A large attempt overflows to Infinity, which the maximum ends.
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

/** Two significant digits, rounded up: at most 10 % late, and about 500 delays in all. */
function exact(computedMs: number, maxMs: number): ChosenDelay {
  const wholeMs = ceilMs(computedMs)
  if (wholeMs > TOP_RUNG_MS) return held(wholeMs)
  const unit = 10 ** Math.max(0, String(wholeMs).length - 2)
  // The producer's maximum wins over the rounding: it is one number per policy, so it cannot make
  // a queue for each attempt either.
  return onRung(Math.min(Math.ceil(wholeMs / unit) * unit, maxMs))
}

/** Uniform in [0.5, 1.5) × computed, then one of the neighbours on the ladder. */
function jittered(computedMs: number, maxMs: number, random: () => number): ChosenDelay {
  const drawnMs = Math.min(computedMs * (0.5 + random()), maxMs)
  // The ledger can wait for any number of ms: what is drawn there stays as it is. (The top rung
  // would gather most of the delays between 300 s and 450 s on one instant.)
  if (drawnMs > TOP_RUNG_MS) return held(ceilMs(drawnMs))
  const fits = (rung: number) =>
    rung >= computedMs * 0.5 && rung < computedMs * 1.5 && rung <= maxMs
  const above = LADDER_MS.find((rung) => rung >= drawnMs) ?? TOP_RUNG_MS
  const below = LADDER_MS.findLast((rung) => rung <= drawnMs) ?? 0
  if (fits(below) && fits(above)) return onRung(nearer(below, above, drawnMs, random))
  if (fits(below)) return onRung(below)
  // Nothing fits only below the ladder. The next rung up may pass the maximum, which wins again.
  return onRung(fits(above) ? above : Math.min(above, maxMs))
}

/** In proportion, so that the rungs keep the mean of what was drawn. */
function nearer(below: number, above: number, drawnMs: number, random: () => number): number {
  return random() * (above - below) < drawnMs - below ? above : below
}

/** Without the last digits of a double: 100 × 1.1 is 110.00000000000001, not 111 ms. */
function ceilMs(ms: number): number {
  return Math.ceil(Number(ms.toPrecision(12)))
}

function onRung(delayMs: number): ChosenDelay {
  return { delayMs, rungMs: delayMs }
}

function held(delayMs: number): ChosenDelay {
  return { delayMs, rungMs: null }
}
