/** Fetches that wait, in the order in which they came. */
import type { LiveDelivery } from './delivery.ts'

const MAX_WAITERS = 4096

/** What a fetch waits for. */
export interface Wanted {
  readonly queues: readonly string[]
  readonly count: number
  /** The client asked to wait (`wait_ms`); else the wait only bridges a message's way to us. */
  readonly isLongPoll: boolean
  /** When the fetch came. */
  readonly since: number
  /** True while the ledger knows more than `beyond` (default 0) claimable jobs in this queue. */
  hasClaimable(queue: string, beyond?: number): boolean
  /** Bytes of the jobs that the fetch has already, which wait for these; absent: it has none. */
  readonly takenBytes?: number
}

export interface Waiter extends Wanted {
  readonly resolve: (deliveries: LiveDelivery[]) => void
  readonly timer: NodeJS.Timeout
  readonly signal: AbortSignal
  readonly onAbort: () => void
  /** Since when it could have had jobs but waits for further ones on their way; clock time. */
  putOffSince: number | null
  hasLingered: boolean
}

/** Fetches that wait, served per queue in the order in which they came. */
export class Waiters {
  readonly #byQueue = new Map<string, Set<Waiter>>()
  readonly #atEnd: (waiter: Waiter) => LiveDelivery[]
  #count = 0

  /** `atEnd`: returns what is available to a waiter whose time is over. */
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

  /** Resolves when the waiter is served, when `waitMs` is over or when `signal` aborts. */
  wait(wanted: Wanted, waitMs: number, signal: AbortSignal): Promise<LiveDelivery[]> {
    if (this.#count >= MAX_WAITERS) return Promise.resolve([])
    return new Promise((resolve) => {
      const onAbort = () => this.serve(waiter, [])
      const timer = setTimeout(() => this.serve(waiter, this.#atEnd(waiter)), waitMs)
      const state = { resolve, timer, signal, onAbort, putOffSince: null, hasLingered: false }
      const waiter: Waiter = { ...wanted, ...state }
      signal.addEventListener('abort', onAbort, { once: true })
      this.#count += 1
      for (const queue of waiter.queues) this.#add(queue, waiter)
    })
  }

  /** Answers the waiter and ends its wait. */
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
