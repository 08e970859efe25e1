/** The numbers of dead letters: by queue from kept counts, else from the newest of them. */
import { ANY_JOB, errorTypeOf } from '../../../job/search/filter.ts'
import type { DeadLetterStats } from '../../dead-letters.ts'
import { MAX_DEAD_LOOKED_AT } from '../../lists/limits.ts'
import { byId } from './comparison.ts'
import { byDeath, deadIn, type Searched } from './sources.ts'

/** Dead letters of one statement; without errors that are very large. */
const PART = 256
const MAX_ERROR_BYTES = 65_536

/** See `Reads.deadLetterStats`. */
export async function statsOfDead(
  searched: Searched,
  queues: readonly string[],
): Promise<DeadLetterStats> {
  const { memory } = searched
  const byType = new Map<string, number>()
  const byErrorType = new Map<string | null, number>()
  const filter = { ...ANY_JOB, queues }
  const { keys } = byDeath(searched, filter, { isAscending: false, after: null })
  let searchedRows = 0
  let newestAt: number | null = null
  while (searchedRows < MAX_DEAD_LOOKED_AT) {
    const part = await keys.take(PART)
    if (part.length === 0) break
    newestAt ??= part[0]?.at ?? null
    searchedRows += part.length
    for (const { type, error } of await factsOf(searched, part)) {
      add(byType, type)
      add(byErrorType, errorTypeOf(error))
    }
  }
  const oldest = byDeath(searched, filter, { isAscending: true, after: null }).keys
  const [first] = await oldest.take(1)
  const names = queues.length > 0 ? queues : [...memory.queues.keys()]
  const byQueue = names.map((name) => [name, deadIn(memory, [name])] as const)
  return {
    total: deadIn(memory, queues),
    byQueue: new Map(byQueue.filter(([, count]) => count > 0)),
    ...{ byType, byErrorType, newestAt },
    oldestAt: first?.at ?? null,
    searched: searchedRows < MAX_DEAD_LOOKED_AT ? null : searchedRows,
  }
}

interface Facts {
  type: string
  error: string | null
}

async function factsOf(
  { asks, schema }: Searched,
  keys: readonly { id: string }[],
): Promise<Facts[]> {
  const text = byId(`SELECT j.type,
      CASE WHEN octet_length(b.error) < ${MAX_ERROR_BYTES} THEN b.error END AS error
    FROM ${schema}.jobs j JOIN ${schema}.job_bodies b ON b.id = j.id WHERE j.id = w.id`)
  return (await asks.rows(text, [keys.map(({ id }) => id)])) as readonly unknown[] as Facts[]
}

function add<K>(counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
