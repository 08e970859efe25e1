import type { LiveDelivery } from './delivery.ts'

const MAX_WAITERS = 4096

export interface Waiter {
  readonly queues: readonly string[]
  readonly count: number
  /** Asked for by the client (`wait_ms`), not just bridging the way of a message to us. */
  readonly isLongPoll: boolean
}

interface Entry extends Waiter {
  resolve(deliveries: LiveDelivery[]): void
  timer: NodeJS.Timeout
  signal: AbortSignal
  onAbort(): void
}

/** Fetches that wait, served in the order in which they came, per queue. */
export class Waiters {
  readonly #byQueue = new Map<string, Set<Entry>>()
  #count = 0

  has(queue: string): boolean {
    return this.#byQueue.has(queue)
  }

  countFor(queue: string): number {
    return this.#byQueue.get(queue)?.size ?? 0
  }

  /** Queues that somebody waits for. */
  queues(): string[] {
    return [...this.#byQueue.keys()]
  }

  first(queue: string): Waiter | undefined {
    const [first] = this.#byQueue.get(queue) ?? []
    return first
  }

  forQueue(queue: string): Waiter[] {
    return [...(this.#byQueue.get(queue) ?? [])]
  }

  /** Resolves when served, when `waitMs` is over or when `signal` aborts. */
  wait(waiter: Waiter, waitMs: number, signal: AbortSignal): Promise<LiveDelivery[]> {
    if (this.#count >= MAX_WAITERS) return Promise.resolve([])
    return new Promise((resolve) => {
      const entry: Entry = {
        ...waiter,
        resolve,
        signal,
        timer: setTimeout(() => this.serve(entry, []), waitMs),
        onAbort: () => this.serve(entry, []),
      }
      signal.addEventListener('abort', entry.onAbort, { once: true })
      this.#count += 1
      for (const queue of entry.queues) this.#add(queue, entry)
    })
  }

  /** The waiter's answer; it waits no longer. */
  serve(waiter: Waiter, deliveries: LiveDelivery[]): void {
    const entry = waiter as Entry
    clearTimeout(entry.timer)
    entry.signal.removeEventListener('abort', entry.onAbort)
    this.#count -= 1
    for (const queue of entry.queues) this.#remove(queue, entry)
    entry.resolve(deliveries)
  }

  serveAllEmpty(): void {
    for (const entries of [...this.#byQueue.values()]) {
      for (const entry of [...entries]) this.serve(entry, [])
    }
  }

  #add(queue: string, entry: Entry): void {
    const entries = this.#byQueue.get(queue)
    if (entries) entries.add(entry)
    else this.#byQueue.set(queue, new Set([entry]))
  }

  #remove(queue: string, entry: Entry): void {
    const entries = this.#byQueue.get(queue)
    entries?.delete(entry)
    if (entries?.size === 0) this.#byQueue.delete(queue)
  }
}
