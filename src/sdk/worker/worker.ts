/** `OJSWorker`: takes jobs from its source, runs their handlers, drains when it stops. */
import { Deadlines } from '../async/deadline-timer.ts'
import { Deferred } from '../async/deferred.ts'
import { onAbort } from '../async/on-abort.ts'
import { Pause } from '../async/sleep.ts'
import { MiddlewareChain } from '../middleware.ts'
import {
  Execution,
  type ExecutionChain,
  type ExecutionDeps,
  type ExecutionMiddleware,
  type Handler,
} from './execution.ts'
import { listenToSignals, type Signals } from './signals.ts'
import type { JobSource, Lease, Settlement, SourceSink } from './source.ts'
import {
  type OJSWorkerOptions,
  settingsOf,
  type WorkerLogger,
  type WorkerSettings,
} from './worker-options.ts'

/** How long giving jobs back to the server may take after the grace period. */
const RELEASE_MS = 5_000

/** Time for the program after `stopped` resolves, before hanging handlers make the worker end the process. */
const RAISE_DELAY_MS = 1_000

export interface StopResult {
  /** Jobs that were given back, or whose outcome could not be reported: they will run again. */
  abandoned: string[]
}

/** `idle`: not started. From `running` on, the state only ever moves to the right. */
export type OJSWorkerState = 'idle' | 'running' | 'quiet' | 'terminate' | 'stopped'

/**
 * Runs jobs (seed 004, "Worker API"). Takes them from a source, HTTP or AMQP, and passes each through the
 * middleware to the handler of its type, up to `concurrency` at a time. Handlers are the same for both.
 */
export class OJSWorker {
  /** Runs around each handler; the first one is the outermost. */
  readonly middleware: ExecutionChain = new MiddlewareChain()
  readonly #settings: WorkerSettings
  readonly #handlers = new Map<string, Handler>()
  /** Every execution whose handler or report has not ended. Each takes a slot. */
  readonly #executions = new Set<Execution>()
  /** The newest execution of each job in `#executions`. */
  readonly #current = new Map<string, Execution>()
  readonly #deadlines = new Deadlines<Execution>((execution) => execution.overrun())
  readonly #drain = new Pause()
  /** Jobs whose outcome could not be reported since the worker began to stop: they will run again. */
  readonly #unreported = new Set<string>()
  readonly #executionDeps: ExecutionDeps
  #state: OJSWorkerState = 'idle'
  #hasPatience = true
  #hasHeardSignal = false
  #signals: Signals | undefined
  #starting: Promise<void> | undefined
  #stopping: Promise<StopResult> | undefined
  readonly #end = new Deferred<StopResult>()
  /** Resolves when the worker has stopped, whether by `stop()`, a signal or the server. */
  readonly stopped: Promise<StopResult> = this.#end.promise

  /** Throws `TypeError` for invalid options. Does not connect yet. */
  constructor(options: OJSWorkerOptions) {
    this.#settings = settingsOf(options)
    this.#executionDeps = {
      workerId: this.workerId,
      middleware: this.middleware,
      deadlines: this.#deadlines,
      handlerOf: (type) => this.#handlers.get(type),
      onReported: (execution, report, settlement) =>
        this.#onReported(execution, report, settlement),
      onError: (error) => this.#onError(error),
    }
  }

  get workerId(): string {
    return this.#settings.workerId
  }

  get state(): OJSWorkerState {
    return this.#state
  }

  /** The number of jobs in hand. */
  get activeJobs(): number {
    return this.#executions.size
  }

  /** Sets the handler for jobs of this type. Throws `Error` if there is one already. */
  register<Args extends unknown[] = unknown[]>(type: string, handler: Handler<Args>): this {
    if (typeof handler !== 'function')
      throw new TypeError(`The handler for '${type}' must be a function.`)
    if (this.#handlers.has(type)) throw new Error(`There is a handler for '${type}' already.`)
    // The types of the arguments are an agreement between producer and handler; nothing here can check them.
    this.#handlers.set(type, handler as Handler<never> as Handler)
    return this
  }

  handlerOf(type: string): Handler | undefined {
    return this.#handlers.get(type)
  }

  /** Adds execution middleware inside all that was added before; `middleware` has the other operations. */
  use(
    ...args: [middleware: ExecutionMiddleware] | [name: string, middleware: ExecutionMiddleware]
  ): this {
    this.middleware.use(...args)
    return this
  }

  /**
   * Begins to take jobs. If the server cannot be reached, the worker keeps trying, and this resolves all the
   * same. Rejects if the server refuses the worker at once, which waiting does not mend (over HTTP: 400, 401,
   * 403, 404), and if the worker was stopped.
   */
  start(): Promise<void> {
    if (this.#stopping !== undefined) {
      return Promise.reject(new Error('The worker was stopped; make a new one.'))
    }
    this.#starting ??= this.#start()
    return this.#starting
  }

  /** Takes no more jobs. Running jobs and heartbeats go on. */
  quiet(): void {
    if (this.#state !== 'running') return
    this.#state = 'quiet'
    void this.#guard(() => this.#settings.source.quiet())
  }

  /**
   * Takes no more jobs, waits up to the grace period for running ones, gives the rest back and resolves with
   * their ids. Idempotent; never rejects.
   */
  stop(): Promise<StopResult> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  async #start(): Promise<void> {
    const { source, workerId, concurrency, queues, handleSignals } = this.#settings
    this.#state = 'running'
    if (handleSignals) this.#signals = listenToSignals((signal) => this.#onSignal(signal))
    try {
      await source.start(this.#sink(), { workerId, concurrency, queues })
    } catch (error) {
      await this.stop()
      throw error
    }
  }

  #onSignal(signal: string): void {
    this.#log('info', 'signal', { signal })
    // A second signal means that the user does not want to wait for running jobs. An earlier `stop()` by the
    // program or the server does not count as a signal.
    if (this.#hasHeardSignal) this.#hasPatience = false
    this.#hasHeardSignal = true
    this.#drain.wake()
    void this.stop()
  }

  async #stop(): Promise<StopResult> {
    const isStarted = this.#starting !== undefined
    this.#state = 'terminate'
    const { source } = this.#settings
    let abandoned: string[] = []
    if (isStarted) {
      void this.#guard(() => source.quiet())
      await this.#drained()
      abandoned = await this.#endSource(source)
    }
    this.#state = 'stopped'
    this.#end.resolve({ abandoned })
    this.#endSignals()
    return { abandoned }
  }

  /**
   * Stops listening to signals. If handlers that ignore their `AbortSignal` still run, they would keep the
   * process alive although a signal told it to end: raises that signal again.
   */
  #endSignals(): void {
    if (!this.#signals) return
    this.#signals.end()
    this.#raiseIfHanging(this.#signals)
  }

  #raiseIfHanging(signals: Signals): void {
    if (this.#executions.size === 0) return
    setTimeout(() => {
      if (this.#executions.size > 0 && !signals.raiseAgain()) this.#raiseIfHanging(signals)
    }, RAISE_DELAY_MS)
  }

  async #drained(): Promise<void> {
    const end = performance.now() + this.#settings.gracePeriod
    for (;;) {
      const left = end - performance.now()
      if (this.#executions.size === 0 || !this.#hasPatience || left <= 0) return
      await this.#drain.sleep(left)
    }
  }

  /**
   * Gives the remaining jobs back and stops the source. Resolves with the ids of jobs that will run again.
   */
  async #endSource(source: JobSource): Promise<string[]> {
    const left = [...this.#executions].filter(({ isHeld }) => isHeld)
    const limit = new AbortController()
    const timer = setTimeout(() => limit.abort(), RELEASE_MS)
    const released = Promise.all(left.map((execution) => execution.abandon()))
    await Promise.race([released, new Promise<void>((resolve) => onAbort(limit.signal, resolve))])
    try {
      await source.stop(limit.signal)
    } catch (error) {
      this.#onError(error)
    }
    clearTimeout(timer)
    const unsettled = left.filter(({ isSettled }) => !isSettled).map(({ jobId }) => jobId)
    const abandoned = [...new Set([...this.#unreported, ...unsettled])]
    if (abandoned.length > 0)
      this.#log('error', 'jobs left unfinished or unreported at shutdown; they will run again', {
        job_ids: abandoned,
      })
    return abandoned
  }

  #sink(): SourceSink {
    return {
      capacity: () => this.#capacity(),
      deliver: (lease) => this.#deliver(lease),
      abort: (jobId, reason) => this.#current.get(jobId)?.abort(reason),
      directive: (state) => this.#obey(state),
      state: () =>
        this.#state === 'running' || this.#state === 'quiet' ? this.#state : 'terminate',
      onError: (error) => this.#onError(error),
    }
  }

  #capacity(): number {
    const { concurrency } = this.#settings
    return this.#state === 'running' ? Math.max(0, concurrency - this.#executions.size) : 0
  }

  #deliver(lease: Lease): void {
    if (this.#capacity() === 0) {
      // The source delivered after `quiet()`, or more than there are free slots.
      void this.#guard(() => lease.release())
      return
    }
    const execution = new Execution(lease, this.#executionDeps)
    // The same job was delivered again: nobody waits for the outcome of the older execution any more.
    this.#current.get(execution.jobId)?.abort('lost')
    this.#executions.add(execution)
    this.#current.set(execution.jobId, execution)
    void this.#guard(() => this.#run(execution))
  }

  async #run(execution: Execution): Promise<void> {
    try {
      await execution.run()
    } finally {
      this.#executions.delete(execution)
      const { jobId } = execution
      if (this.#current.get(jobId) === execution) this.#current.delete(jobId)
      if (this.#executions.size === 0) this.#drain.wake()
      this.#settings.source.slotFree()
    }
  }

  #obey(state: 'quiet' | 'terminate'): void {
    if (state === 'terminate') void this.stop()
    else this.quiet()
  }

  #onReported({ lease }: Execution, report: string, settlement: Settlement): void {
    if (settlement === 'settled') return
    const details = { job_id: lease.job.id, attempt: lease.attempt, report }
    if (settlement === 'failed' && this.#state === 'terminate') this.#unreported.add(lease.job.id)
    if (settlement === 'stale')
      this.#log(
        'warn',
        'report came too late: the server no longer waits for this execution',
        details,
      )
    else this.#log('error', 'report could not be delivered; the job will run again', details)
  }

  /** Runs `run` without letting it reject: reports the error instead. */
  async #guard(run: () => Promise<void>): Promise<void> {
    try {
      await run()
    } catch (error) {
      this.#onError(error)
    }
  }

  #onError(error: unknown): void {
    this.#log('error', `${this.#settings.source.name} source reported an error`, { error })
  }

  #log(level: keyof WorkerLogger, message: string, details: Record<string, unknown>): void {
    try {
      this.#settings.logger[level](message, { worker_id: this.workerId, ...details })
    } catch {
      // A logger that throws must not stop a job.
    }
  }
}
