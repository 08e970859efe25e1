import type { LiveDelivery } from './delivery.ts'

const MAX_WAITERS = 4096

/** What a fetch waits for. */
export interface Wanted {
  readonly queues: readonly string[]
  readonly count: number
  /** Asked for by the client (`wait_ms`), not just bridging the way of a message to us. */
  readonly isLongPoll: boolean
  /** When it came. */
  readonly since: number
  /** True while the ledger knows of claimable jobs in this queue, more than `beyond` (default 0). */
  hasClaimable(queue: string, beyond?: number): boolean
  /** Of the jobs that it has already, which wait for these; not said: it has none. */
  readonly takenBytes?: number
}

export interface Waiter extends Wanted {
  readonly resolve: (deliveries: LiveDelivery[]) => void
  readonly timer: NodeJS.Timeout
  readonly signal: AbortSignal
  readonly onAbort: () => void
  /** Since when it could have had something, and waits for what is on its way; clock time. */
  putOffSince: number | null
  hasLingered: boolean
}

/** Fetches that wait, served in the order in which they came, per queue. */
export class Waiters {
  readonly #byQueue = new Map<string, Set<Waiter>>()
  readonly #atEnd: (waiter: Waiter) => LiveDelivery[]
  #count = 0

  /** `atEnd`: what is there for one whose time is over. */
  constructor(atEnd: (waiter: Waiter) => LiveDelivery[]) {
    this.#atEnd = atEnd
  }

  has(queue: string): boolean {
    return this.#byQueue.has(queue)
  }

  countFor(queue: string): number {
    return this.#byQueue.get(queue)?.size ?? 0
  }

  queues(): Iterable<string> {
    return this.#byQueue.keys()
  }

  first(queue: string): Waiter | undefined {
    const [first] = this.#byQueue.get(queue) ?? []
    return first
  }

  forQueue(queue: string): Waiter[] {
    return [...(this.#byQueue.get(queue) ?? [])]
  }

  /** Resolves when served, when `waitMs` is over or when `signal` aborts. */
  wait(wanted: Wanted, waitMs: number, signal: AbortSignal): Promise<LiveDelivery[]> {
    if (this.#count >= MAX_WAITERS) return Promise.resolve([])
    return new Promise((resolve) => {
      const onAbort = () => this.serve(waiter, [])
      const timer = setTimeout(() => this.serve(waiter, this.#atEnd(waiter)), waitMs)
      const own = { resolve, timer, signal, onAbort, putOffSince: null, hasLingered: false }
      const waiter: Waiter = { ...wanted, ...own }
      signal.addEventListener('abort', onAbort, { once: true })
      this.#count += 1
      for (const queue of waiter.queues) this.#add(queue, waiter)
    })
  }

  /** The waiter's answer; it waits no longer. */
  serve(waiter: Waiter, deliveries: LiveDelivery[]): void {
    clearTimeout(waiter.timer)
    waiter.signal.removeEventListener('abort', waiter.onAbort)
    this.#count -= 1
    for (const queue of waiter.queues) this.#remove(queue, waiter)
    waiter.resolve(deliveries)
  }

  serveAllEmpty(): void {
    for (const waiters of [...this.#byQueue.values()]) {
      for (const waiter of [...waiters]) this.serve(waiter, [])
    }
  }

  #add(queue: string, waiter: Waiter): void {
    const waiters = this.#byQueue.get(queue)
    if (waiters) waiters.add(waiter)
    else this.#byQueue.set(queue, new Set([waiter]))
  }

  #remove(queue: string, waiter: Waiter): void {
    const waiters = this.#byQueue.get(queue)
    waiters?.delete(waiter)
    if (waiters?.size === 0) this.#byQueue.delete(queue)
  }
}
