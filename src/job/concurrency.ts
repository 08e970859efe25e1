/** Concurrency keys: how many jobs of a key may be active at once. */
import type { ConcurrencyRequest } from './request.ts'
import { membersOf } from './values/json-value.ts'

/** At most `limit` jobs with this key are active at once. */
export interface Concurrency {
  key: string
  limit: number
}

export const MAX_CONCURRENCY = 10_000
export const MAX_CONCURRENCY_KEY = 255

/** The policy of a job that names one. Without a key, jobs of the same type and queue share the limit. */
export function concurrencyOf(
  { key, limit }: ConcurrencyRequest,
  { type, queue }: { type: string; queue: string },
): Concurrency {
  return { key: key ?? `queue:${queue}:type:${type}`, limit }
}

/** The characters of a key: those that show in a log line, and that both ledgers keep as they are. */
export const KEY_PATTERN = '^[^\\u0000-\\u001f\\u007f\\p{Cs}]*$'
const KEY = new RegExp(KEY_PATTERN, 'u')

/** What a job says of its concurrency: its `concurrency`, or that of its `rate_limit` (OJS rate limits); null: nothing. */
export function concurrencyIn({
  concurrency,
  rate_limit: rateLimit,
}: {
  concurrency?: unknown
  rate_limit?: unknown
}): ConcurrencyRequest | null {
  const { limit } = membersOf(concurrency)
  if (isLimit(limit)) return { key: keyIn(concurrency), limit }
  const { concurrency: most } = membersOf(rateLimit)
  return isLimit(most) ? { key: keyIn(rateLimit), limit: most } : null
}

function isLimit(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= MAX_CONCURRENCY
}

function keyIn(policy: unknown): string | null {
  const { key } = membersOf(policy)
  const isKey = typeof key === 'string' && key.length > 0 && key.length <= MAX_CONCURRENCY_KEY
  return isKey && KEY.test(key) ? key : null
}

/**
 * True for a job that is available but is held back: as many jobs of its key are active, or have their message
 * in its queue, as its limit allows. It has no job message; the ledger makes one when it is its turn.
 */
export function isHeldByKey({ state, holder }: { state: string; holder: string | null }): boolean {
  return state === 'available' && holder === 'ledger'
}
