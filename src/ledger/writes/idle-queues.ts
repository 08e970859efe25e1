/** Which queues nobody uses any more, as far as a gateway knows. */
import type { Known, QueueRecord } from '../known.ts'

type Seen = Pick<
  Known,
  'counts' | 'deadLetterCount' | 'pauses' | 'queueSettings' | 'staleCopies' | 'lost'
>

/** See `KnownIdle`. */
export function isEmptyQueue(
  { counts, deadLetterCount }: Pick<Seen, 'counts' | 'deadLetterCount'>,
  queue: string,
): boolean {
  const { completed: _, cancelled: __, discarded: ___, ...live } = counts(queue)
  return Object.values(live).every((count) => count === 0) && deadLetterCount(queue) === 0
}

/** See `KnownIdle`. */
export function isIdleQueue(seen: Seen, queue: string): boolean {
  const { pauses, queueSettings, staleCopies, lost } = seen
  if (!isEmptyQueue(seen, queue) || queueSettings.of(queue) !== null) return false
  if (pauses.since(queue) !== null || pauses.owed().has(queue)) return false
  return !staleCopies().has(queue) && !lost.has(queue)
}

interface Noticed {
  seen: Seen
  /** Since when each idle queue has been idle, as far as was noticed before. */
  since: ReadonlyMap<string, number>
  isUsed(queue: string): boolean
  /** When something happened in the queue last; 0: nothing is known. */
  lastAt(queue: string): number
}

export interface IdleChange {
  queue: string
  /** Null: it is in use. */
  since: number | null
}

/** What a look at these queues notices. `due`: those that have been idle for `idleMs`. */
export function lookAtQueues(
  queues: readonly QueueRecord[],
  noticed: Noticed,
  { now, idleMs }: { now: number; idleMs: number },
): { changes: IdleChange[]; due: string[] } {
  const changes: IdleChange[] = []
  const due: string[] = []
  for (const { name: queue } of queues) {
    const since = noticed.isUsed(queue) ? null : idleSince(noticed, queue, now)
    if (since !== (noticed.since.get(queue) ?? null)) changes.push({ queue, since })
    if (since !== null && now - since >= idleMs) due.push(queue)
  }
  return { changes, due }
}

/** Null: the queue is in use. A clock that was set back makes no queue idle for longer. */
function idleSince({ seen, since, lastAt }: Noticed, queue: string, now: number): number | null {
  if (!isIdleQueue(seen, queue)) return null
  const noted = Math.min(since.get(queue) ?? now, now)
  return Math.min(Math.max(noted, lastAt(queue)), now)
}
