import type { Job } from './job.ts'
import type { EnqueueRequest } from './job-options.ts'

interface Arrival {
  index: number
  request: EnqueueRequest
  resolve(job: Job): void
  reject(error: unknown): void
}

/**
 * Where the jobs of a batch meet: each passes the middleware on its own, and one request takes all
 * of them. Sent when every job has arrived or was kept by a middleware; never when one has failed,
 * because a batch is all or none (seed 001 §7.2).
 */
export class BatchGate {
  readonly #send: (requests: EnqueueRequest[]) => Promise<Job[]>
  #waiting: Arrival[] = []
  #expected: number
  #failure: { error: unknown } | undefined

  /** `send` answers one job for each request, in their order. */
  constructor(size: number, send: (requests: EnqueueRequest[]) => Promise<Job[]>) {
    this.#expected = size
    this.#send = send
  }

  /** Called once for each job: `enter` runs its middleware, with `arrive` inside. */
  async pass<T>(
    index: number,
    enter: (arrive: (request: EnqueueRequest) => Promise<Job>) => Promise<T>,
  ): Promise<T> {
    let hasArrived = false
    const arrive = (request: EnqueueRequest) => {
      hasArrived = true
      return this.#arrive(index, request)
    }
    try {
      return await enter(arrive)
    } catch (error) {
      if (!hasArrived) this.#fail(error)
      throw error
    } finally {
      if (!hasArrived) this.#expectOneLess()
    }
  }

  #arrive(index: number, request: EnqueueRequest): Promise<Job> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ index, request, resolve, reject })
      this.#expectOneLess()
    })
  }

  #fail(error: unknown): void {
    this.#failure ??= { error }
  }

  #expectOneLess(): void {
    this.#expected -= 1
    if (this.#expected > 0) return
    const all = this.#waiting.sort((a, b) => a.index - b.index)
    if (this.#failure) for (const { reject } of all) reject(this.#failure.error)
    else if (all.length > 0) void this.#sendAll(all)
  }

  async #sendAll(all: readonly Arrival[]): Promise<void> {
    try {
      const jobs = await this.#send(all.map(({ request }) => request))
      for (const [i, { resolve, reject }] of all.entries()) {
        const job = jobs[i]
        if (job) resolve(job)
        else reject(new Error('The answer has fewer jobs than the batch.'))
      }
    } catch (error) {
      for (const { reject } of all) reject(error)
    }
  }
}
