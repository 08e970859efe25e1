import { JobAbortError } from './abort.ts'
import type { Deadlines } from './deadlines.ts'
import type { Job } from './job.ts'
import { jobError, jobErrorOf } from './job-error.ts'
import type { Middleware, MiddlewareChain } from './middleware.ts'
import type { JobError, Lease, Settlement } from './source.ts'
import type { TraceContext } from './trace-context.ts'
import { type ProcessEnd, type ProcessSpan, startProcess, traceOfLease } from './tracing.ts'

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

/** A layer around each handler; `next()` gives its result. */
export type ExecutionMiddleware = Middleware<JobContext, unknown>

export type ExecutionChain = MiddlewareChain<JobContext, unknown>

export interface ExecutionDeps {
  readonly workerId: string
  readonly middleware: ExecutionChain
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
  readonly #trace: TraceContext
  #span: ProcessSpan | undefined
  #phase: Phase = 'starting'
  #isSettled = false
  #handling: Promise<unknown> | undefined
  #isHandling = false
  #reporting: Promise<void> | undefined

  constructor(lease: Lease, deps: ExecutionDeps) {
    this.lease = lease
    this.#deps = deps
    this.#trace = traceOfLease(lease)
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
    if (reason === 'cancelled') this.#end('cancelled')
    this.#controller.abort(new JobAbortError(reason))
  }

  /** Its `timeout_ms` is over: reported at once, although the handler may go on. */
  overrun(): void {
    const { timeout_ms: limit } = this.lease.job
    const message = `The job ran for longer than its ${limit} ms.`
    const error = jobError('timeout', message, { type: 'TimeoutError' })
    this.#report('fail', error, () => this.#failOverrun(error))
    this.#controller.abort(new JobAbortError('timeout', message))
  }

  /** The worker will not wait for it: back to the queue, unless its end is being reported. Resolves then. */
  async abandon(): Promise<void> {
    if (this.#phase === 'reporting') return await this.#reporting
    if (!this.#isUnreported()) return
    this.#end('released')
    this.#controller.abort(new JobAbortError('shutdown'))
    await guarded(() => this.lease.release(), this.#deps)
  }

  #isUnreported(): boolean {
    return this.#phase === 'starting' || this.#phase === 'running'
  }

  #end(how: ProcessEnd): void {
    this.#phase = 'over'
    this.#deps.deadlines.delete(this)
    this.#span?.end(how)
  }

  /** False: it must not run, or was ended while it waited to. */
  async #begin(): Promise<boolean> {
    const mayRun = await guarded(() => this.lease.begin(), this.#deps)
    if (this.#phase !== 'starting') return false
    if (mayRun === true) this.#phase = 'running'
    else this.#end('released')
    return this.#phase === 'running'
  }

  async #execute(): Promise<void> {
    const { type, timeout_ms: limit } = this.lease.job
    this.#span = startProcess(this.lease, this.#trace, this.#deps.workerId)
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
      const run = () => this.#throughMiddleware(handler)
      this.#complete(await (this.#span?.run(run) ?? run()))
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
    // And an outer one may have given up on it: its failure is reported, and the slot is another's.
    if (this.#phase !== 'running') throw new JobAbortError('lost')
    this.#isHandling = true
    try {
      return await handler(context)
    } finally {
      this.#isHandling = false
    }
  }

  #context(): JobContext {
    const { job, attempt } = this.lease
    return {
      // The handler's own: whatever it makes of it, the report is about the job that came.
      job: { ...job },
      args: job.args,
      attempt,
      queue: job.queue,
      type: job.type,
      meta: job.meta ?? {},
      signal: this.#controller.signal,
      workerId: this.#deps.workerId,
      ...this.#trace,
    }
  }

  #complete(result: unknown): void {
    const problem = problemOf(result)
    if (problem) this.#fail(problem)
    else this.#report('complete', 'completed', () => this.lease.complete(result))
  }

  #fail(error: JobError): void {
    this.#report('fail', error, () => this.lease.fail(error))
    // Middleware that gave up on a handler has not stopped it.
    if (this.#isHandling) this.#controller.abort(new JobAbortError('lost'))
  }

  /**
   * A server that keeps the time itself began to count when it handed the job out, so that it has
   * failed the attempt by now, for the same reason: that is no news, and no report that came too late.
   */
  async #failOverrun(error: JobError): Promise<Settlement> {
    const settlement = await this.lease.fail(error)
    return settlement === 'stale' ? 'settled' : settlement
  }

  #report(kind: 'complete' | 'fail', how: ProcessEnd, settle: () => Promise<Settlement>): void {
    if (this.#phase !== 'running') return
    const span = this.#span
    span?.end(how)
    this.#phase = 'reporting'
    this.#deps.deadlines.delete(this)
    // Its requests belong to the trace as well.
    const report = () => span?.run(settle) ?? settle()
    this.#reporting = guarded(report, this.#deps).then((settlement = 'failed') => {
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
    // A function, a symbol: reported, it would be as if there were no result.
    return JSON.stringify(result) === undefined ? resultError(kindOf(result)) : undefined
  } catch (error) {
    return resultError(jobErrorOf(error).message)
  }
}

function kindOf(result: unknown): string {
  return typeof result === 'object' ? 'an object whose toJSON gives nothing' : `a ${typeof result}`
}

function resultError(reason: string): JobError {
  return jobError('handler_error', `The result of the handler is not JSON: ${reason}`, {
    type: 'ResultError',
    retryable: false,
  })
}
