/** How far the relay may be behind before an operation on many jobs waits for it. */
import type { BulkOperation, OwedKind } from '../../ledger/bulk.ts'
import type { Deps } from '../deps.ts'

/**
 * Messages that the outbox may owe to the queues of an operation before that waits for the relay. Retried jobs come
 * to RabbitMQ no faster than it takes them, and other jobs find the relay no further behind than that.
 */
export const MAX_OWED = 10_000
/** Counting what is owed costs milliseconds: worth it for a tenth of that only, and not again at once. */
const LEAST_ROOM = 0.1
/** Between two looks when all operations wait, and at first when one does. */
export const WAIT_MS = 25
const MAX_WAIT_MS = 1_000

/** How many messages an operation may still owe; counted anew when that is used up. */
class Room {
  left = 0
  #waitMs = 0
  #waitsUntil = 0

  /** `count`: how many messages are owed, up to `maxOwed`. */
  async isThere(maxOwed: number, count: () => Promise<number>): Promise<boolean> {
    if (this.left > 0) return true
    const now = performance.now()
    if (now < this.#waitsUntil) return false
    const room = maxOwed - (await count())
    if (room < LEAST_ROOM * maxOwed) {
      this.#waitMs = Math.min(Math.max(WAIT_MS, 2 * this.#waitMs), MAX_WAIT_MS)
      this.#waitsUntil = now + this.#waitMs
      return false
    }
    this.left = room
    this.#waitMs = 0
    return true
  }
}

/** The rooms of all operations that run. One that waits for a queue that is full keeps no other waiting. */
export class Rooms {
  readonly #deps: Pick<Deps, 'ledger'>
  readonly #maxOwed: number
  readonly #rooms = new Map<string, Room>()

  constructor(deps: Pick<Deps, 'ledger'>, maxOwed: number) {
    this.#deps = deps
    this.#maxOwed = maxOwed
  }

  isThereFor(operation: BulkOperation): Promise<boolean> {
    const { id, action } = operation
    if (action === 'delete') return Promise.resolve(true)
    const room = this.#rooms.get(id) ?? new Room()
    this.#rooms.set(id, room)
    const { read } = this.#deps.ledger
    return room.isThere(this.#maxOwed, () =>
      read.owedMessages(this.#maxOwed, owedBy(this.#deps, operation)),
    )
  }

  /** They may be of the queues of every other operation. */
  use({ action }: BulkOperation, jobs: number): void {
    if (action !== 'delete') for (const room of this.#rooms.values()) room.left -= jobs
  }

  keepOnly(running: readonly BulkOperation[]): void {
    const ids = new Set(running.map(({ id }) => id))
    for (const id of this.#rooms.keys()) if (!ids.has(id)) this.#rooms.delete(id)
  }
}

/** Which of the owed messages an operation adds to: those of its queues, or of all that have jobs for it. */
function owedBy(
  { ledger }: Pick<Deps, 'ledger'>,
  { action, filter, steering }: BulkOperation,
): OwedKind {
  const hasJobs = (queue: string) => {
    const counts = ledger.known.counts(queue)
    return steering.states.some((state) => counts[state] > 0)
  }
  const names = () => ledger.known.queues().map(({ name }) => name)
  const queues = filter.queues.length > 0 ? filter.queues : names().filter(hasJobs)
  return { queues, ofCancels: action === 'cancel' }
}
