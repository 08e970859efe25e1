/** What limits the start of jobs: concurrency keys, and the rates of queues. */
import { notFound } from '../../errors.ts'
import { compare } from '../../job/values/canonical-json.ts'
import { type KeyStanding, MAX_WAITING_COUNTED } from '../../ledger/concurrency.ts'
import type { Deps } from '../deps.ts'
import type { StartsStanding } from './rate-limiter.ts'

/** A list has so many keys; each other is found by its name. */
const MAX_KEYS = 1_000
/** Rates have names as keys that jobs have without one: `queue:<name>:type:<type>`. */
const QUEUE = 'queue:'

export interface KnownLimit {
  key: string
  /** Null: no active or available job has this concurrency key. */
  concurrency: KeyStanding | null
  /** Null: the key is of no queue, or its queue has started no job with a `rate_limit` lately. */
  starts: StartsStanding | null
}

/** True: more jobs wait than were counted. */
export function isWaitingBound({ concurrency }: KnownLimit): boolean {
  return concurrency !== null && concurrency.waiting >= MAX_WAITING_COUNTED
}

/** A page of what is known now, in the order of the keys. `isBound`: there are more than `total`. */
export async function listLimits(
  deps: Deps,
  start: number,
  limit: number,
): Promise<{ limits: KnownLimit[]; total: number; isBound: boolean }> {
  const ofJobs = await deps.ledger.read.concurrency.keys('', MAX_KEYS + 1)
  const ofQueues = deps.startLimits.keys().map((name) => QUEUE + name)
  const keys = [...new Set([...ofJobs, ...ofQueues])].sort(compare)
  const shown = keys.slice(0, MAX_KEYS)
  const limits = await limitsOf(deps, shown.slice(start, start + limit))
  return { limits, total: shown.length, isBound: keys.length > MAX_KEYS }
}

/** Throws 404 for a key that no active or available job has, and of which nothing has started lately. */
export async function findLimit(deps: Deps, key: string): Promise<KnownLimit> {
  const [found] = await limitsOf(deps, [key])
  if (found === undefined) throw notFound('rate_limit', key)
  return found
}

async function limitsOf(deps: Deps, keys: readonly string[]): Promise<KnownLimit[]> {
  const standings = await deps.ledger.read.concurrency.standings(keys)
  return keys.flatMap((key) => {
    const concurrency = standings.get(key) ?? null
    const starts = key.startsWith(QUEUE) ? deps.startLimits.standing(key.slice(QUEUE.length)) : null
    return concurrency === null && starts === null ? [] : [{ key, concurrency, starts }]
  })
}
