/** Runs one job through handlers and middleware, without a server. */
import { Deadlines } from '../async/deadline-timer.ts'
import { Deferred } from '../async/deferred.ts'
import { onAbort } from '../async/on-abort.ts'
import { Pause } from '../async/sleep.ts'
import type { Job } from '../job.ts'
import { MiddlewareChain } from '../middleware.ts'
import { Execution, type ExecutionChain, type Handler } from '../worker/execution.ts'
import type { LeaseNotes } from '../worker/notes.ts'
import type { JobError, Lease, Settlement } from '../worker/source.ts'

/** Time for a handler that obeys its signal to finish what runs after the report, such as a `finally`. */
const CLEANUP_MS = 100

/** What `runInline` needs of a worker: handlers by type, and middleware. An `OJSWorker` fits. */
export interface InlineWorker {
  readonly middleware: ExecutionChain
  readonly workerId: string
  handlerOf(type: string): Handler | undefined
}

/** How the job ended. `cancelled`: by the caller's signal; a worker would report nothing. */
export type InlineOutcome =
  | { state: 'completed'; result: unknown }
  | { state: 'failed'; error: JobError }
  | { state: 'cancelled' }

/** A job; all members but `type` have defaults. */
export type InlineJob = Pick<Job, 'type'> & Partial<Job>

export interface InlineOptions {
  /** Cancels the job. */
  signal?: AbortSignal | undefined
}

/**
 * Runs one job at once and without a server, for tests of handlers and middleware. The job passes the same
 * middleware, timeout and error reporting as in a worker. Resolves when the job has ended, or 100 ms later if
 * its handler ignores its signal and goes on. Never rejects.
 */
export function runInline(
  workerOrHandlers: InlineWorker | Readonly<Record<string, Handler>>,
  job: InlineJob,
  options?: InlineOptions,
): Promise<InlineOutcome>
/** Takes handlers with typed arguments, as `OJSWorker.register` does. */
export function runInline(
  handlers: Readonly<Record<string, Handler<never>>>,
  job: InlineJob,
  options?: InlineOptions,
): Promise<InlineOutcome>
export async function runInline(
  workerOrHandlers: InlineWorker | Handlers,
  job: InlineJob,
  { signal }: InlineOptions = {},
): Promise<InlineOutcome> {
  const worker = isWorker(workerOrHandlers) ? workerOrHandlers : workerOf(workerOrHandlers)
  const lease = new InlineLease(job)
  const execution = new Execution(lease, {
    workerId: worker.workerId,
    middleware: worker.middleware,
    deadlines: new Deadlines((one: Execution) => one.overrun()),
    handlerOf: (type) => worker.handlerOf(type),
    onReported() {},
    onError() {},
  })
  const cancel = () => {
    execution.abort('cancelled')
    lease.end.resolve()
  }
  const unsubscribe = signal && onAbort(signal, cancel)
  if (signal?.aborted) cancel()
  const run = execution.run()
  await Promise.race([run, lease.end.promise])
  // The outcome is known now. Wait a little for the `finally` of a handler that obeys its signal; one that
  // ignores it may never end.
  const cleanup = new Pause()
  await Promise.race([run, cleanup.sleep(CLEANUP_MS)])
  cleanup.wake()
  unsubscribe?.()
  return lease.outcome
}

type Handlers = Readonly<Record<string, Handler<never>>>

/** Keeps what the handler saves, for itself alone. */
class InlineNotes implements LeaseNotes {
  #checkpoint: unknown

  async progress(): Promise<void> {}

  async checkpoint(state: unknown): Promise<void> {
    this.#checkpoint = state
  }

  async lastCheckpoint(): Promise<unknown> {
    return this.#checkpoint
  }
}

/** Records the outcome that a worker would report. */
class InlineLease implements Lease {
  readonly job: Job
  readonly attempt: number
  outcome: InlineOutcome = { state: 'cancelled' }
  readonly notes = new InlineNotes()
  /** Resolves when the outcome is final. */
  readonly end = new Deferred<void>()

  constructor(job: InlineJob) {
    const { attempt = 1 } = job
    this.attempt = attempt
    this.job = { id: 'inline', queue: 'default', args: [], state: 'active', ...job, attempt }
  }

  begin(): boolean {
    return true
  }

  complete(result: unknown): Promise<Settlement> {
    return this.#settle({ state: 'completed', result })
  }

  fail(error: JobError): Promise<Settlement> {
    return this.#settle({ state: 'failed', error })
  }

  release(): Promise<void> {
    return Promise.resolve()
  }

  #settle(outcome: InlineOutcome): Promise<Settlement> {
    this.outcome = outcome
    this.end.resolve()
    return Promise.resolve('settled')
  }
}

function isWorker(given: InlineWorker | Handlers): given is InlineWorker {
  return given['middleware'] instanceof MiddlewareChain
}

function workerOf(handlers: Handlers): InlineWorker {
  return {
    middleware: new MiddlewareChain(),
    workerId: 'inline',
    // `hasOwn`, because a job type may be named `constructor`.
    handlerOf: (type) =>
      Object.hasOwn(handlers, type) ? (handlers[type] as Handler | undefined) : undefined,
  }
}
