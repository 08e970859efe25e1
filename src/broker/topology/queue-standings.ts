/** What the declarer knows of each queue, and for how long it holds. */
import type { EnsureOutcome } from '../broker.ts'
import type { BrokerOptions } from '../options.ts'

/** How long a lossy queue is not compared again. Each time, RabbitMQ logs every argument that differs. */
const LOSSY_MS = 2_000

/** What the declarer knows of each queue. */
export class QueueStandings {
  readonly #options: Pick<BrokerOptions, 'declare' | 'maxQueues'>
  /** Queues that the gateway looks after: configured, recorded, declared or found. */
  readonly known: Set<string>
  /**
   * Queues that were ready when the declare connection was lost while our other connections stayed up, with
   * no sign since that they are gone. They accept jobs before they have been checked again.
   */
  readonly believed = new Set<string>()
  /** Checked or declared on the present connection. */
  readonly ready = new Set<string>()
  /** Queues whose consumers were cancelled and that have not been declared or found alive since. */
  readonly dying = new Set<string>()
  /** Ready, but one of the queue's entities is on a node that is down. */
  readonly incomplete = new Set<string>()
  /** Queues that are being deleted, until it is decided whether they stay. */
  readonly leaving = new Map<string, Promise<unknown>>()
  /** About to be declared for the first time; they count against the limit too. */
  readonly #starting = new Set<string>()
  /** Queues that can drop messages unseen, and when (`performance.now()`) that was found. */
  readonly #lossy = new Map<string, number>()

  constructor(options: Pick<BrokerOptions, 'declare' | 'maxQueues' | 'queues'>) {
    this.#options = options
    this.known = new Set(options.declare === 'lazy' ? [] : options.queues)
  }

  /** May get messages. */
  isUsable(queue: string): boolean {
    const exists = this.ready.has(queue) || this.believed.has(queue)
    return exists && !this.#lossy.has(queue) && !this.leaving.has(queue)
  }

  /** As checked on the present connection; null: it has to be checked. */
  checked(queue: string): 'ready' | 'lossy' | null {
    if (!this.ready.has(queue)) return null
    const since = this.#lossy.get(queue)
    if (since === undefined) return 'ready'
    return performance.now() - since < LOSSY_MS ? 'lossy' : null
  }

  isLossy(queue: string): boolean {
    return this.#lossy.has(queue)
  }

  noteReady(queue: string, outcome: 'ready' | 'lossy'): void {
    this.known.add(queue)
    this.ready.add(queue)
    this.believed.delete(queue)
    this.dying.delete(queue)
    if (outcome === 'lossy') this.#lossy.set(queue, performance.now())
    else this.#lossy.delete(queue)
  }

  noteMissing(queue: string): void {
    this.believed.delete(queue)
    this.#lossy.delete(queue)
  }

  /** Runs `work`, which deletes the queue. Resolves to false when the queue stays; rejects as `work` does. */
  leave(queue: string, work: () => Promise<boolean>): Promise<boolean> {
    // Now, not when it is decided: whoever waits for that must not find an earlier check.
    this.ready.delete(queue)
    this.believed.delete(queue)
    const deleted = Promise.resolve()
      .then(work)
      .then((isGone) => {
        if (isGone) this.#forget(queue)
        return isGone
      })
      .finally(() => this.leaving.delete(queue))
    this.leaving.set(
      queue,
      deleted.catch(() => {}),
    )
    return deleted
  }

  #forget(queue: string): void {
    for (const set of [this.known, this.believed, this.ready, this.dying, this.incomplete])
      set.delete(queue)
    this.#lossy.delete(queue)
  }

  noteIncomplete(queue: string, isAnyAway: boolean): void {
    if (isAnyAway) this.incomplete.add(queue)
    else this.incomplete.delete(queue)
  }

  /** Null: the queue may be declared, and counts against `maxQueues` until `release`. */
  reserve(queue: string): Exclude<EnsureOutcome, 'ready'> | null {
    const { declare: strategy, maxQueues } = this.#options
    if (strategy === 'never') return 'missing'
    if (this.known.has(queue)) return null
    if (strategy === 'eager') return 'missing'
    if (this.known.size + this.#starting.size >= maxQueues) return 'too-many-queues'
    this.#starting.add(queue)
    return null
  }

  release(queue: string): void {
    this.#starting.delete(queue)
  }
}
