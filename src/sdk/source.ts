import type { Job } from './job.ts'

/**
 * Where a worker gets its jobs from. The core (`OJSWorker`) knows handlers, middleware, slots,
 * timeouts and shutdown; a source knows one protocol: HTTP long poll (`HttpSource`) or AMQP.
 * Neither knows more of the other than this file.
 */

/** What the worker is doing; it only ever moves to the right (seed 001 §10.4). */
export type WorkerState = 'running' | 'quiet' | 'terminate'

/** A failure as it is reported (seed 001 §10.3). Plain data: it serialises as JSON. */
export interface JobError {
  code: string
  /** Never empty. */
  message: string
  /** The name of the error's class. */
  type?: string
  /** False: no retry, whatever the policy says. */
  retryable: boolean
  /** `stack` among them. */
  details?: Record<string, unknown>
}

/**
 * How a report ended. `settled`: the server has it. `stale`: this execution is not the one that
 * the server waits for any more (409); nothing is left to do. `failed`: it could not be told.
 */
export type Settlement = 'settled' | 'stale' | 'failed'

/**
 * One job in hand. The core settles it once: exactly one of `complete`, `fail` and `release`, or
 * none after an `abort('cancelled')`. None of them rejects.
 */
export interface Lease {
  readonly job: Job
  /** Which execution this is, from 1; every report carries it. */
  readonly attempt: number
  /** W3C trace context of whoever enqueued the job: the parent of the execution's span. */
  readonly traceparent?: string
  readonly tracestate?: string
  /**
   * Asked once before the handler is looked up; resolves when it may run (AMQP: the `started` of
   * a claimed token is confirmed). False: nobody runs it here, and the source has settled it.
   */
  begin(): boolean | Promise<boolean>
  /** The handler returned. Resolves when the server knows, or is known not to. */
  complete(result: unknown): Promise<Settlement>
  /** The handler threw, or overran its time. */
  fail(error: JobError): Promise<Settlement>
  /** It was not run to its end (shutdown): back to the queue, if possible without an attempt. */
  release(): Promise<void>
}

/** What a source tells the worker. None of these throws. */
export interface SourceSink {
  /** Free slots now; 0 unless running. A source never hands over more than that. */
  capacity(): number
  deliver(lease: Lease): void
  /**
   * The `AbortSignal` of the job fires. `cancelled`: the job has ended; nothing about it is
   * reported any more. `lost`: somebody else may have it; the report is made and may be stale.
   * An id that is not running here is no error.
   */
  abort(jobId: string, reason: 'cancelled' | 'lost'): void
  /** The server wants the worker to stop taking jobs, or to end (seed 001 §10.4). */
  directive(state: 'quiet' | 'terminate'): void
  state(): WorkerState
  /** Something went wrong that no job shows: a failed poll, a lost connection. */
  onError(error: unknown): void
}

export interface SourceOptions {
  /** Constant for the life of the worker. */
  readonly workerId: string
  /** Slots in all. */
  readonly concurrency: number
  readonly queues: readonly string[]
}

/** Used by one worker, started once. */
export interface JobSource {
  /** `http` or `amqp`. */
  readonly name: string
  /**
   * Resolves when jobs can come. Rejects only for what waiting does not mend (a wrong URL); a
   * server that is away is waited for, and told with `onError`.
   */
  start(sink: SourceSink, options: SourceOptions): Promise<void>
  /** A slot became free (HTTP: poll again at once; AMQP: nothing, the prefetch does it). */
  slotFree(): void
  /** Takes nothing new; heartbeats and reports go on. Idempotent. */
  quiet(): Promise<void>
  /**
   * The worker has drained or given up: the last reports, then everything ends. Never rejects, and
   * resolves soon after `deadline` is aborted. Idempotent; also after a `start` that rejected.
   */
  stop(deadline: AbortSignal): Promise<void>
}
