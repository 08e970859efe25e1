/** The contract between a worker and the source of its jobs, HTTP or AMQP. */
import type { Job } from '../job.ts'
import type { LeaseNotes } from './notes.ts'

/**
 * Where a worker gets its jobs from. The worker (`OJSWorker`) handles handlers, middleware, slots, timeouts
 * and shutdown; a source speaks one protocol: HTTP long poll (`HttpSource`) or AMQP. They only know each
 * other by the types in this file.
 */

/** The worker's state; it only ever moves to the right (seed 001 §10.4). */
export type WorkerState = 'running' | 'quiet' | 'terminate'

/** A failure as it is reported (seed 001 §10.3). Plain data that can be written as JSON. */
export interface JobError {
  code: string
  /** Never empty. */
  message: string
  /** The class name of the error. */
  type?: string
  /** False: not retried, whatever the job's retry policy says. */
  retryable: boolean
  /** Contains the `stack`, among others. */
  details?: Record<string, unknown>
}

/**
 * How a report ended. `settled`: the server has it. `stale`: the server does not wait for this execution any
 * more (409); there is nothing left to do. `failed`: the report could not be delivered.
 */
export type Settlement = 'settled' | 'stale' | 'failed'

/**
 * One job in hand. The worker settles it once: by exactly one of `complete`, `fail` and `release`, or not at
 * all after an `abort('cancelled')`. None of them rejects.
 */
export interface Lease {
  readonly job: Job
  /** The number of this execution, from 1; every report carries it. */
  readonly attempt: number
  /** W3C trace context of the producer: the parent of the execution's span. */
  readonly traceparent?: string
  readonly tracestate?: string
  /** What the handler says about the job while it runs. */
  readonly notes: LeaseNotes
  /**
   * Called once, before the handler is looked up; resolves when the handler may run (AMQP: the `started`
   * event of a claimed message is confirmed). False: the job must not run here, and the source has settled it.
   */
  begin(): boolean | Promise<boolean>
  /** Reports success. Resolves when the server has the report, or will certainly not get it. */
  complete(result: unknown): Promise<Settlement>
  /** Reports that the handler threw or exceeded its time limit. */
  fail(error: JobError): Promise<Settlement>
  /** Gives a job that did not run to its end (shutdown) back, if possible without counting the attempt. */
  release(): Promise<void>
}

/** What a source tells the worker. None of these methods throws. */
export interface SourceSink {
  /** Free slots now; 0 unless the worker is running. A source must never deliver more jobs than that. */
  capacity(): number
  deliver(lease: Lease): void
  /**
   * Fires the job's `AbortSignal`. `cancelled`: the job has ended, and nothing more is reported for it.
   * `lost`: another worker may have the job; the outcome is still reported, and may be stale. An id that does
   * not run here is ignored.
   */
  abort(jobId: string, reason: 'cancelled' | 'lost'): void
  /** The server tells the worker to take no more jobs, or to end (seed 001 §10.4). */
  directive(state: 'quiet' | 'terminate'): void
  state(): WorkerState
  /** Reports a problem that belongs to no job: a failed poll, a lost connection. */
  onError(error: unknown): void
}

export interface SourceOptions {
  /** The same for the whole life of the worker. */
  readonly workerId: string
  /** The number of slots. */
  readonly concurrency: number
  readonly queues: readonly string[]
}

/** A source serves one worker and is started once. */
export interface JobSource {
  /** `http` or `amqp`. */
  readonly name: string
  /**
   * Resolves when jobs can arrive. Rejects only for problems that waiting does not mend (a wrong URL). If the
   * server cannot be reached, the source keeps trying and tells `onError`.
   */
  start(sink: SourceSink, options: SourceOptions): Promise<void>
  /** Called when a slot is free (HTTP polls again at once; AMQP hands over a delivery that it holds). */
  slotFree(): void
  /** Takes no more jobs; heartbeats and reports go on. Idempotent. */
  quiet(): Promise<void>
  /**
   * Called when the worker has drained or given up: sends the last reports, then ends everything. Never
   * rejects, and resolves soon after `deadline` is aborted. Idempotent; allowed after a `start` that
   * rejected.
   */
  stop(deadline: AbortSignal): Promise<void>
}
