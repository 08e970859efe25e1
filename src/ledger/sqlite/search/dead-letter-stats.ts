/** The numbers of dead letters: by queue from kept counts, else from the newest of them. */
import { ANY_JOB, errorTypeOf } from '../../../job/search/filter.ts'
import type { DeadLetterStats } from '../../dead-letters.ts'
import { MAX_DEAD_LOOKED_AT } from '../../lists/limits.ts'
import type { Store } from '../state/store.ts'
import { byDeath, deadIn } from './sources.ts'

/** See `DeadLetterLedger.deadLetterStats`. */
export function* statsOfDead(
  store: Store,
  queues: readonly string[],
): Generator<void, DeadLetterStats> {
  const byQueue = new Map<string, number>()
  for (const name of queues.length > 0 ? queues : store.queues.all().map((queue) => queue.name)) {
    const count = store.counter.deadLetters(name)
    if (count > 0) byQueue.set(name, count)
  }
  const byType = new Map<string, number>()
  const byErrorType = new Map<string | null, number>()
  const filter = { ...ANY_JOB, queues }
  const { merge } = byDeath(store, filter, { isAscending: false, after: null })
  let searched = 0
  let newestAt: number | null = null
  for (let key = merge.next(); key !== null && searched < MAX_DEAD_LOOKED_AT; key = merge.next()) {
    newestAt ??= key.at
    searched += 1
    const facts = store.statements.deadFacts.get(key.seq)
    if (facts === undefined) continue
    add(byType, facts.type)
    add(byErrorType, errorTypeOf(facts.error))
    if (searched % 16 === 0) yield
  }
  const first = byDeath(store, filter, { isAscending: true, after: null }).merge.next()
  return {
    total: deadIn(store, queues),
    ...{ byQueue, byType, byErrorType, newestAt },
    oldestAt: first?.at ?? null,
    searched: searched < MAX_DEAD_LOOKED_AT ? null : searched,
  }
}

function add<K>(counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
