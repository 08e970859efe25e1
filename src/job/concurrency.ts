/** Concurrency keys: how many jobs of a key may be active at once. */
import type { ConcurrencyRequest } from './request.ts'

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

/**
 * True for a job that is available but is held back: as many jobs of its key are active, or have their message
 * in its queue, as its limit allows. It has no job message; the ledger makes one when it is its turn.
 */
export function isHeldByKey({ state, holder }: { state: string; holder: string | null }): boolean {
  return state === 'available' && holder === 'ledger'
}
