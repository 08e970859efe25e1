/** Who waits for the ends of jobs: the commit that ends a job wakes them. */
import type { JobEvent } from '../telemetry/events.ts'

/** Requests that wait at the same time; a further one is answered at once. Each holds a timer and a socket. */
const MAX_WAITING = 4_096

const ENDS: ReadonlySet<JobEvent['type']> = new Set<JobEvent['type']>([
  'job.completed',
  'job.cancelled',
  'job.discarded',
  'job.expired',
])

/** Who waits for the ends of jobs, by id. */
export class EndWaiters {
  readonly #byId = new Map<string, Set<() => void>>()
  readonly #capacity: number
  #size = 0

  constructor(capacity: number = MAX_WAITING) {
    this.#capacity = capacity
  }

  get size(): number {
    return this.#size
  }

  /** For every event of the gateway. */
  readonly onJobEvent = (event: JobEvent): void => {
    if (this.#size === 0 || !ENDS.has(event.type) || !('job' in event)) return
    for (const wake of this.#byId.get(event.job.id) ?? []) wake()
  }

  /**
   * Resolves when the job ends, after `waitMs`, when `signal` aborts, or at once if too many wait. Begins before it
   * returns: no end that comes after the call is missed.
   */
  wait(id: string, waitMs: number, signal: AbortSignal): Promise<void> {
    if (this.#size >= this.#capacity || signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const waiting = this.#byId.get(id) ?? new Set()
      const over = () => {
        if (!waiting.delete(over)) return
        this.#size -= 1
        if (waiting.size === 0) this.#byId.delete(id)
        clearTimeout(timer)
        signal.removeEventListener('abort', over)
        resolve()
      }
      const timer = setTimeout(over, waitMs)
      signal.addEventListener('abort', over)
      waiting.add(over)
      this.#byId.set(id, waiting)
      this.#size += 1
    })
  }
}
