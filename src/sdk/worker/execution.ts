/** One execution of a job: middleware, handler, timeout, and its only report. */
import type { Deadlines } from '../async/deadline-timer.ts'
import type { Job } from '../job.ts'
import type { Middleware, MiddlewareChain } from '../middleware.ts'
import type { TraceContext } from '../trace-context.ts'
import { JobAbortError } from './job-abort-error.ts'
import { jobError, jobErrorOf } from './job-error.ts'
import { Notes } from './notes.ts'
import type { JobError, Lease, Settlement } from './source.ts'
import { type ProcessEnd, type ProcessSpan, startProcess, traceOfLease } from './tracing.ts'

/** The argument of handlers and execution middleware. */
export interface JobContext<Args extends unknown[] = unknown[]> {
  readonly job: Job
  readonly args: Args
  /** The number of this execution of the job, from 1. */
  readonly attempt: number
  readonly queue: string
  readonly type: string
  readonly meta: Readonly<Record<string, unknown>>
  /**
   * Fires when the work has become pointless; `signal.reason` is a `JobAbortError` that says why. If the job
   * was cancelled, what the handler returns or throws afterwards has no effect.
   */
  readonly signal: AbortSignal
  readonly workerId: string
  /**
   * Tells how far the job is, from 0 to 1; the server takes it for a heartbeat. May be called at any pace: the
   * newest is sent once a second.
   */
  progress(progress: number, more?: { message?: string; data?: Record<string, unknown> }): void
  /** Saves from where a next attempt can go on: any JSON of up to 1 MiB. Rejects if it is not saved. */
  checkpoint(state: unknown): Promise<void>
  /** What this or an earlier attempt has saved last; undefined: nothing. */
  lastCheckpoint(): Promise<unknown>
  /** W3C trace context of the producer. */
  readonly traceparent?: string
  readonly tracestate?: string
}

/**
 * Does the work of one type of job. The value that it returns is the job's result and must be JSON. What it
 * throws is reported as a failure and retried, unless it has `retryable: false`.
 */
export type Handler<Args extends unknown[] = unknown[]> = (ctx: JobContext<Args>) => unknown

/** A middleware around each handler; `next()` resolves with the handler's result. */
export type ExecutionMiddleware = Middleware<JobContext, unknown>

export type ExecutionChain = MiddlewareChain<JobContext, unknown>

export interface ExecutionDeps {
  readonly workerId: string
  readonly middleware: ExecutionChain
  readonly deadlines: Deadlines<Execution>
  handlerOf(type: string): Handler | undefined
  /** Called when the report of this execution has ended, successfully or not. */
  onReported(execution: Execution, report: 'complete' | 'fail', settlement: Settlement): void
  /** Called when a method of the lease threw, which a source must not let happen. */
  onError(error: unknown): void
}

/** `over`: nothing (more) will be reported; the handler may still be running. */
type Phase = 'starting' | 'running' | 'reporting' | 'over'

/** One execution of a job: from its delivery by the source to the end of its handler and its only report. */
export class Execution {
  readonly lease: Lease
  readonly #deps: ExecutionDeps
  readonly #controller = new AbortController()
  readonly #trace: TraceContext
  readonly #notes: Notes
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
    this.#notes = new Notes(lease.notes, {
      isRunning: () => this.#phase === 'running',
      onError: (error) => deps.onError(error),
    })
  }

  get jobId(): string {
    return this.lease.job.id
  }

  /** Whether the server must keep the job reserved: it runs here, or its report is under way. */
  get isHeld(): boolean {
    return this.#phase !== 'over'
  }

  /** Whether the server knows the outcome. */
  get isSettled(): boolean {
    return this.#isSettled
  }

  /** Runs the job. Resolves when handler and report are done and the slot is free again. Never rejects. */
  async run(): Promise<void> {
    if (!(await this.#begin())) return
    await this.#execute()
    // The slot stays taken until the handler ends, even if a timeout or a middleware no longer waits for it.
    await this.#handling?.catch(() => undefined)
    await this.#reporting
  }

  /** Fires the job's signal; after `cancelled` nothing is reported. No effect once the report has begun. */
  abort(reason: 'cancelled' | 'lost'): void {
    if (!this.#isUnreported()) return
    if (reason === 'cancelled') this.#end('cancelled')
    this.#controller.abort(new JobAbortError(reason))
  }

  /** Called when `timeout_ms` is over: reports a failure at once, although the handler may go on. */
  overrun(): void {
    const { timeout_ms: limit } = this.lease.job
    const message = `The job ran for longer than its timeout of ${limit} ms.`
    const error = jobError('timeout', message, { type: 'TimeoutError' })
    this.#report('fail', error, () => this.#failOverrun(error))
    this.#controller.abort(new JobAbortError('timeout', message))
  }

  /**
   * Gives the job back to the queue because the worker stops waiting for it. Resolves when that is done, or,
   * if the job's report is already under way, when the report has ended.
   */
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
    this.#notes.end()
    this.#deps.deadlines.delete(this)
    this.#span?.end(how)
  }

  /** False: the lease does not let the job run, or the execution ended while it waited for the answer. */
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
      // Not retryable (seed 004): this worker would get the job again and again.
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
    // The job may have been aborted while middleware ran.
    this.#controller.signal.throwIfAborted()
    // An outer middleware may have stopped waiting for this one: then the failure is already reported, and
    // the slot may be taken by another job.
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
    const { progress, checkpoint, lastCheckpoint } = this.#notes
    return {
      // A copy, so that the report names the delivered job even if the handler changes its own.
      job: { ...job },
      args: job.args,
      attempt,
      queue: job.queue,
      type: job.type,
      meta: job.meta ?? {},
      signal: this.#controller.signal,
      workerId: this.#deps.workerId,
      progress,
      checkpoint,
      lastCheckpoint,
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
    // A middleware may have stopped waiting for the handler, which is still running: tell it to stop.
    if (this.#isHandling) this.#controller.abort(new JobAbortError('lost'))
  }

  /**
   * Reports a timeout. A server that measures `timeout_ms` itself started earlier, when it handed the job
   * out, and has already failed the attempt for the same reason. Its 409 then means `settled`, not a report
   * that came too late.
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
    this.#notes.end()
    this.#deps.deadlines.delete(this)
    // Inside the span, so that the requests of the report belong to the trace.
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

/** The error for a result that is not JSON. It is not retryable: the next attempt would return the same. */
function problemOf(result: unknown): JobError | undefined {
  if (typeof result === 'string' || result === undefined || result === null) return undefined
  try {
    // A function or a symbol would be reported as if there were no result.
    return JSON.stringify(result) === undefined ? resultError(kindOf(result)) : undefined
  } catch (error) {
    return resultError(jobErrorOf(error).message)
  }
}

function kindOf(result: unknown): string {
  return typeof result === 'object'
    ? 'an object whose toJSON() returns no JSON value'
    : `a ${typeof result}`
}

function resultError(reason: string): JobError {
  return jobError('handler_error', `The result of the handler is not JSON: ${reason}`, {
    type: 'ResultError',
    retryable: false,
  })
}
