/** Since when the oldest jobs of each queue wait. */
import { MAX_OVERDUE, MAX_TYPES } from '../../lists/limits.ts'
import type { OldestJobs } from '../../search.ts'
import type { Store } from '../state/store.ts'
import { typesIn } from './sources.ts'

const PART = 256

/** Finds the oldest jobs of the queues, by the first entries of index ranges. Pauses between its steps. */
export function* oldestJobs(
  store: Store,
  queues: readonly string[],
  now: number,
  wall: number,
): Generator<void, ReadonlyMap<string, OldestJobs>> {
  const retryable = yield* mostOverdue(store, 'retryable', now)
  const scheduled = yield* mostOverdue(store, 'scheduled', wall)
  const found = new Map<string, OldestJobs>()
  for (const queue of queues) {
    found.set(queue, {
      available: yield* oldestAvailable(store, queue),
      retryable: retryable.get(queue) ?? null,
      scheduled: scheduled.get(queue) ?? null,
    })
  }
  return found
}

function* oldestAvailable(store: Store, queue: string): Generator<void, number | null> {
  const { counter, statements } = store
  if (counter.of(queue).available === 0) return null
  let oldest = statements.oldestLate.get(queue)?.at ?? Number.POSITIVE_INFINITY
  let types = 0
  for (const type of typesIn(store, queue, 'available', [])) {
    const first = statements.oldestOfRange.get(queue, 'available', type, 0)
    oldest = Math.min(oldest, first?.at ?? Number.POSITIVE_INFINITY)
    types += 1
    if (types >= MAX_TYPES) break
    yield
  }
  return Number.isFinite(oldest) ? oldest : null
}

/** The due time of the most overdue job of each queue. */
function* mostOverdue(
  { statements }: Store,
  state: 'retryable' | 'scheduled',
  until: number,
): Generator<void, Map<string, number>> {
  const found = new Map<string, number>()
  let at = Number.MIN_SAFE_INTEGER
  let seq = 0
  for (let rows = 0; rows < MAX_OVERDUE; rows += PART) {
    const part = statements.overdueOf.all(state, until, at, seq, PART)
    for (const row of part) if (!found.has(row.queue)) found.set(row.queue, row.at)
    const last = part.at(-1)
    if (last === undefined || part.length < PART) break
    at = last.at
    seq = last.seq
    yield
  }
  return found
}
