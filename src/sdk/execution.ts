import { JobAbortError } from './abort.ts'
import type { Deadlines } from './deadlines.ts'
import type { Job } from './job.ts'
import { jobError, jobErrorOf } from './job-error.ts'
import type { MiddlewareChain } from './middleware.ts'
import type { JobError, Lease, Settlement } from './source.ts'

/** What a handler and execution middleware get. */
export interface JobContext<Args extends unknown[] = unknown[]> {
  readonly job: Job
  readonly args: Args
  /** Which execution of the job this is, from 1. */
  readonly attempt: number
  readonly queue: string
  readonly type: string
  readonly meta: Readonly<Record<string, unknown>>
  /**
   * Fires when the work has become pointless; `signal.reason` is a `JobAbortError` that says why.
   * What the handler returns or throws afterwards changes nothing where the job was cancelled.
   */
  readonly signal: AbortSignal
  readonly workerId: string
  /** W3C trace context of whoever enqueued the job. */
  readonly traceparent?: string
  readonly tracestate?: string
}

/**
 * Does the work of one type of job. What it returns is the job's result and has to be JSON; what it
 * throws is reported as a failure, to be retried unless it has `retryable: false`.
 */
export type Handler<Args extends unknown[] = unknown[]> = (ctx: JobContext<Args>) => unknown

export type ExecutionMiddleware = MiddlewareChain<JobContext, unknown>

export interface ExecutionDeps {
  readonly workerId: string
  readonly middleware: ExecutionMiddleware
  readonly deadlines: Deadlines<Execution>
  handlerOf(type: string): Handler | undefined
  /** The report of this execution has ended, well or not. */
  onReported(execution: Execution, report: 'complete' | 'fail', settlement: Settlement): void
  /** A source broke its contract. */
  onError(error: unknown): void
}

/** `over`: nothing will be reported (any more); the handler may still be running. */
type Phase = 'starting' | 'running' | 'reporting' | 'over'

/** One job from the hand-over to the end of its handler and of its report, once. */
export class Execution {
  readonly lease: Lease
  readonly #deps: ExecutionDeps
  readonly #controller = new AbortController()
  #phase: Phase = 'starting'
  #isSettled = false
  #handling: Promise<unknown> | undefined
  #isHandling = false
  #reporting: Promise<void> | undefined

  constructor(lease: Lease, deps: ExecutionDeps) {
    this.lease = lease
    this.#deps = deps
  }

  get jobId(): string {
    return this.lease.job.id
  }

  /** The server is to keep it for us: it runs, or its report is under way. */
  get isHeld(): boolean {
    return this.#phase !== 'over'
  }

  /** The server knows how it ended. */
  get isSettled(): boolean {
    return this.#isSettled
  }

  /** Resolves when the slot is free again: handler and report are done. Never rejects. */
  async run(): Promise<void> {
    if (!(await this.#begin())) return
    await this.#execute()
    // The slot stays taken for as long as the work goes on, whoever stopped waiting for it.
    await this.#handling?.catch(() => undefined)
    await this.#reporting
  }

  /** Without effect on one whose handler is done. */
  abort(reason: 'cancelled' | 'lost'): void {
    if (!this.#isUnreported()) return
    if (reason === 'cancelled') this.#end()
    this.#controller.abort(new JobAbortError(reason))
  }

  /** Its `timeout_ms` is over: reported at once, although the handler may go on. */
  overrun(): void {
    const { timeout_ms: limit } = this.lease.job
    const message = `The job ran for longer than its ${limit} ms.`
    this.#report('fail', () =>
      this.lease.fail(jobError('timeout', message, { type: 'TimeoutError' })),
    )
    this.#controller.abort(new JobAbortError('timeout', message))
  }

  /** The worker will not wait for it: back to the queue. Resolves when that is done. */
  async abandon(): Promise<void> {
    if (!this.#isUnreported()) return
    this.#end()
    this.#controller.abort(new JobAbortError('shutdown'))
    await guarded(() => this.lease.release(), this.#deps)
  }

  #isUnreported(): boolean {
    return this.#phase === 'starting' || this.#phase === 'running'
  }

  #end(): void {
    this.#phase = 'over'
    this.#deps.deadlines.delete(this)
  }

  /** False: it must not run, or was ended while it waited to. */
  async #begin(): Promise<boolean> {
    const mayRun = await guarded(() => this.lease.begin(), this.#deps)
    if (this.#phase !== 'starting') return false
    if (mayRun === true) this.#phase = 'running'
    else this.#end()
    return this.#phase === 'running'
  }

  async #execute(): Promise<void> {
    const { type, timeout_ms: limit } = this.lease.job
    const handler = this.#deps.handlerOf(type)
    if (handler === undefined) {
      // Seed 004: else it would be retried here for ever.
      const message = `This worker has no handler for jobs of the type '${type}'.`
      this.#fail(jobError('handler_error', message, { type: 'NoHandlerError', retryable: false }))
      return
    }
    if (limit !== undefined && limit > 0) {
      this.#deps.deadlines.set(this, performance.now() + limit)
    }
    try {
      this.#complete(await this.#throughMiddleware(handler))
    } catch (thrown) {
      this.#fail(jobErrorOf(thrown))
    }
  }

  #throughMiddleware(handler: Handler): Promise<unknown> {
    return this.#deps.middleware.run(this.#context(), (context) => {
      this.#handling = this.#handle(handler, context)
      return this.#handling
    })
  }

  async #handle(handler: Handler, context: JobContext): Promise<unknown> {
    // Middleware may have taken its time.
    this.#controller.signal.throwIfAborted()
    this.#isHandling = true
    try {
      return await handler(context)
    } finally {
      this.#isHandling = false
    }
  }

  #context(): JobContext {
    const { job, attempt, traceparent, tracestate } = this.lease
    return {
      job,
      args: job.args,
      attempt,
      queue: job.queue,
      type: job.type,
      meta: job.meta ?? {},
      signal: this.#controller.signal,
      workerId: this.#deps.workerId,
      ...(traceparent !== undefined && { traceparent }),
      ...(tracestate !== undefined && { tracestate }),
    }
  }

  #complete(result: unknown): void {
    const problem = problemOf(result)
    if (problem) this.#fail(problem)
    else this.#report('complete', () => this.lease.complete(result))
  }

  #fail(error: JobError): void {
    this.#report('fail', () => this.lease.fail(error))
    // Middleware that gave up on a handler has not stopped it.
    if (this.#isHandling) this.#controller.abort(new JobAbortError('lost'))
  }

  #report(kind: 'complete' | 'fail', settle: () => Promise<Settlement>): void {
    if (this.#phase !== 'running') return
    this.#phase = 'reporting'
    this.#deps.deadlines.delete(this)
    this.#reporting = guarded(settle, this.#deps).then((settlement = 'failed') => {
      this.#phase = 'over'
      this.#isSettled = settlement !== 'failed'
      this.#deps.onReported(this, kind, settlement)
    })
  }
}

async function guarded<T>(ask: () => T | Promise<T>, deps: ExecutionDeps): Promise<T | undefined> {
  try {
    return await ask()
  } catch (error) {
    deps.onError(error)
    return undefined
  }
}

/** A result that JSON cannot hold fails the job for good: the next try would return the same. */
function problemOf(result: unknown): JobError | undefined {
  if (typeof result === 'string' || result === undefined || result === null) return undefined
  try {
    JSON.stringify(result)
    return undefined
  } catch (error) {
    const { message } = jobErrorOf(error)
    return jobError('handler_error', `The result of the handler is not JSON: ${message}`, {
      type: 'ResultError',
      retryable: false,
    })
  }
}
