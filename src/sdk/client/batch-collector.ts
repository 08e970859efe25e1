/** Collects the jobs of a batch behind their middleware, and sends them in one request. */
import { onAbort } from '../async/on-abort.ts'
import type { Job } from '../job.ts'
import { OJSTransportError } from '../transport/errors.ts'
import type { EnqueueRequest } from './job-options.ts'

interface Arrival {
  index: number
  request: EnqueueRequest
  resolve(job: Job): void
  reject(error: unknown): void
}

/**
 * Collects the jobs of a batch: each runs through the middleware on its own, and one request sends all of
 * them. It is sent when every job has arrived here or was ended by a middleware without `next()`. It is never
 * sent if a job failed in its middleware, because a batch is all or none (seed 001 §7.2). Behind a middleware
 * that lets only one job through at a time, the jobs wait for each other until the caller's signal fires.
 */
export class BatchGate {
  readonly #send: (requests: EnqueueRequest[]) => Promise<Job[]>
  #waiting: Arrival[] = []
  #expected: number
  readonly #signal: AbortSignal | undefined
  readonly #abort = () => this.#rejectAll(aborted(this.#signal))
  readonly #unsubscribe: (() => void) | undefined
  #failure: { error: unknown } | undefined

  /** `send` must resolve with one job per request, in the same order, and obey the same signal. */
  constructor(
    size: number,
    send: (requests: EnqueueRequest[]) => Promise<Job[]>,
    signal: AbortSignal | undefined,
  ) {
    this.#expected = size
    this.#send = send
    this.#signal = signal
    if (size > 0 && signal) this.#unsubscribe = onAbort(signal, this.#abort)
  }

  /** Call once for each job: `enter` runs its middleware, with `arrive` as the innermost function. */
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
      if (this.#signal?.aborted) this.#abort()
      this.#expectOneLess()
    })
  }

  #fail(error: unknown): void {
    this.#failure ??= { error }
  }

  #expectOneLess(): void {
    this.#expected -= 1
    if (this.#expected > 0) return
    this.#unsubscribe?.()
    if (this.#failure) this.#rejectAll(this.#failure.error)
    else if (this.#waiting.length > 0) {
      void this.#sendAll(this.#waiting.sort((a, b) => a.index - b.index))
    }
  }

  #rejectAll(error: unknown): void {
    this.#fail(error)
    for (const { reject } of this.#waiting.splice(0)) reject(error)
  }

  async #sendAll(all: readonly Arrival[]): Promise<void> {
    try {
      const jobs = await this.#send(all.map(({ request }) => request))
      for (const [i, { resolve, reject }] of all.entries()) {
        const job = jobs[i]
        if (job) resolve(job)
        else reject(new Error("The server's answer has fewer jobs than the batch."))
      }
    } catch (error) {
      for (const { reject } of all) reject(error)
    }
  }
}

function aborted(signal: AbortSignal | undefined): OJSTransportError {
  const init = { kind: 'aborted', attempts: 0, cause: signal?.reason } as const
  return new OJSTransportError('POST /jobs/batch: aborted by the caller', init)
}
