/** Jobs over HTTP by long poll. */
import { Deferred } from '../async/deferred.ts'
import { isRecord } from '../async/options.ts'
import { Pause } from '../async/sleep.ts'
import type { Job } from '../job.ts'
import { OJSError } from '../transport/errors.ts'
import { listIn } from '../transport/request.ts'
import { backoffMs } from '../transport/retry.ts'
import type { Transport } from '../transport/transport.ts'
import { AbortableRequests } from './abortable-requests.ts'
import { FetchedAhead } from './http-ahead.ts'
import { Heartbeat, isDirective } from './http-heartbeat.ts'
import { HttpLease, type HttpLeaseDeps } from './http-lease.ts'
import { HttpReports } from './http-reports.ts'
import type { JobSource, SourceOptions, SourceSink } from './source.ts'

/** Servers hand out no more jobs per request (OJS workers). */
const MAX_COUNT = 100
const MAX_BACKOFF_MS = 10_000
/** How long an answer may take to arrive: the lease began when the server wrote it, perhaps long after the request. */
const ANSWER_MS = 1_000
/** How much longer than its wait a poll may take before it counts as failed. */
const POLL_SLACK_MS = 10_000
/**
 * How long a stop waits for a poll that is under way. If the poll were cut off, the jobs in its answer would
 * be lost to this worker.
 */
const POLL_PATIENCE_MS = 2_000
/**
 * How long a stop waits for the heartbeat that says `terminate`. After it the server recognises a worker with
 * the same id as a new one.
 */
const LAST_BEAT_MS = 1_000
const MANIFEST_TIMEOUT_MS = 10_000
const ASK_AGAIN_MS = 10_000
/** How long `start` waits to learn whether the server refuses the worker. */
const START_PATIENCE_MS = 5_000

/** Times are milliseconds. */
export interface HttpSourceOptions {
  transport: Transport
  /** How long a server may hold a poll; at most 30,000. */
  waitMs: number
  /** The least time between two polls of a server that answers at once without jobs. */
  pauseMs: number
  heartbeatInterval: number
  visibilityTimeout?: number
}

/** What polls need. */
interface Polling {
  readonly sink: SourceSink
  readonly worker: SourceOptions
  readonly ahead: FetchedAhead
  readonly deps: HttpLeaseDeps
}

/** Gets jobs by long poll over the OJS HTTP binding (seed 004, "The polling loop"; seed 001 §10). */
export class HttpSource implements JobSource {
  readonly name = 'http'
  readonly #options: HttpSourceOptions
  /** For polls only: a stop ends them before the last reports. */
  readonly #pollCourier: AbortableRequests
  readonly #courier: AbortableRequests
  readonly #reports: HttpReports
  /** Jobs in hand that are neither settled, cancelled nor lost. */
  readonly #leases = new Map<string, HttpLease>()
  readonly #slotFreed = new Pause()
  readonly #betweenPolls = new Pause()
  readonly #settled = new Pause()
  #heartbeat: Heartbeat | undefined
  #ahead: FetchedAhead | undefined
  /** The queues had nothing when there was no free slot: not asked again until there is one. */
  #areQueuesDry = false
  #polling: Promise<void> = Promise.resolve()
  #beating: Promise<void> = Promise.resolve()
  #asking: Promise<void> = Promise.resolve()
  #stopping: Promise<void> | undefined
  #isQuiet = false
  /** Resolves after the first poll, with its error or `undefined`. */
  readonly #firstPoll = new Deferred<unknown>()
  #failures = 0

  constructor(options: HttpSourceOptions) {
    this.#options = options
    this.#courier = new AbortableRequests(options.transport)
    this.#reports = new HttpReports(this.#courier)
    this.#pollCourier = new AbortableRequests(options.transport)
  }

  /**
   * Rejects if the server refuses the very first requests: a wrong key or path, or options that it does not
   * accept. Refusals after that are retried for ever, as is a server that gives no answer for five seconds:
   * keys may be replaced, and servers set up.
   */
  async start(sink: SourceSink, worker: SourceOptions): Promise<void> {
    const { heartbeatInterval, visibilityTimeout } = this.#options
    const leases = this.#leases
    const ahead = new FetchedAhead({
      concurrency: worker.concurrency,
      capacity: () => sink.capacity(),
      deliver: (lease) => sink.deliver(lease),
    })
    this.#ahead = ahead
    const forget = (lease: HttpLease) => {
      ahead.drop(lease)
      if (leases.get(lease.job.id) === lease) leases.delete(lease.job.id)
      if (leases.size === 0) this.#settled.wake()
    }
    this.#heartbeat = new Heartbeat({
      courier: this.#courier,
      sink,
      worker,
      intervalMs: heartbeatInterval,
      visibilityTimeout,
      leases,
      forget,
    })
    this.#beating = this.#heartbeat.run()
    this.#asking = this.#ask(ahead)
    const deps = {
      courier: this.#courier,
      reports: this.#reports,
      workerId: worker.workerId,
      visibilityTimeout,
      onSettled: forget,
      onError: (error: unknown) => sink.onError(error),
    }
    this.#polling = this.#poll({ sink, worker, ahead, deps })
    const patience = new Pause()
    const answered = this.#refusal(this.#heartbeat)
    const refusal = await Promise.race([answered, patience.sleep(START_PATIENCE_MS)])
    patience.wake()
    if (refusal) throw refusal
  }

  /**
   * The refusal, if the server refused the first heartbeat and the first poll. A heartbeat is answered at
   * once, but a server may have none; a poll is answered only when there are jobs.
   */
  async #refusal({ first }: Heartbeat): Promise<OJSError | undefined> {
    if (!isRefusal(await first)) return undefined
    const refusal = await this.#firstPoll.promise
    return isRefusal(refusal) ? refusal : undefined
  }

  slotFree(): void {
    this.#areQueuesDry = false
    this.#ahead?.begin()
    this.#slotFreed.wake()
  }

  /**
   * Sends no further poll, and gives back what has not begun. A poll that is under way is not cut off: its answer
   * may already hold jobs.
   */
  quiet(): Promise<void> {
    if (!this.#isQuiet) {
      this.#isQuiet = true
      this.#ahead?.end()
      this.#slotFreed.wake()
      this.#betweenPolls.wake()
    }
    // Also at the change from quiet to terminate.
    this.#heartbeat?.beatNow()
    return Promise.resolve()
  }

  stop(deadline: AbortSignal): Promise<void> {
    this.#stopping ??= this.#stop(deadline)
    return this.#stopping
  }

  async #stop(deadline: AbortSignal): Promise<void> {
    await this.quiet()
    const end = () => {
      this.#pollCourier.end()
      this.#courier.end()
    }
    deadline.addEventListener('abort', end, { once: true })
    if (deadline.aborted) end()
    const patience = setTimeout(() => this.#pollCourier.end(), POLL_PATIENCE_MS)
    await this.#polling
    clearTimeout(patience)
    while (this.#leases.size > 0 && !this.#courier.hasEnded) {
      await this.#courier.sleep(Number.POSITIVE_INFINITY, this.#settled)
    }
    await this.#heartbeat?.told(LAST_BEAT_MS)
    deadline.removeEventListener('abort', end)
    end()
    await Promise.all([this.#beating, this.#asking])
  }

  /** Asks the server what it can do beyond OJS. Most servers can do without being asked again. */
  async #ask(ahead: FetchedAhead): Promise<void> {
    for (let failures = 1; !this.#courier.hasEnded; failures += 1) {
      try {
        const request = { method: 'GET', path: '/ojs/manifest', isUrgent: true }
        const { body } = await this.#courier.send({ ...request, timeout: MANIFEST_TIMEOUT_MS })
        const { extensions } = body
        if (!Array.isArray(extensions)) return
        if (extensions.includes('batch_settle')) this.#reports.gather()
        if (extensions.includes('nack_requeue')) ahead.allow()
        return
      } catch (error) {
        // A server without a manifest, or one that does not show it to this worker, gets single reports.
        if (error instanceof OJSError && !error.retryable) return
        await this.#courier.sleep(backoffMs(error, failures, ASK_AGAIN_MS, ASK_AGAIN_MS))
      }
    }
  }

  async #poll(polling: Polling): Promise<void> {
    while (!this.#isQuiet) {
      const free = polling.sink.capacity()
      const more = free === 0 && this.#areQueuesDry ? 0 : polling.ahead.missing
      const count = Math.min(free + more, MAX_COUNT)
      if (count === 0) await this.#pollCourier.sleep(Number.POSITIVE_INFINITY, this.#slotFreed)
      else await this.#pollFor(count, free > 0, polling)
    }
    this.#firstPoll.resolve(undefined)
  }

  /** `mayWait`: there are free slots. Jobs that are fetched ahead would come too late if the poll waited. */
  async #pollFor(count: number, mayWait: boolean, polling: Polling): Promise<void> {
    const { pauseMs, waitMs } = this.#options
    const askedAt = performance.now()
    try {
      const jobs = await this.#fetch(count, mayWait ? waitMs : 0, polling.worker)
      this.#firstPoll.resolve(undefined)
      this.#failures = 0
      const leasedAt = Math.max(askedAt, performance.now() - ANSWER_MS)
      const isAny = this.#take(jobs, leasedAt, polling)
      this.#areQueuesDry = !isAny
      // A server may answer empty polls at once, always or to this worker: it must not be asked in a loop.
      const leftMs = isAny || !mayWait ? 0 : pauseMs - (performance.now() - askedAt)
      if (leftMs > 0 && !this.#isQuiet) await this.#pollCourier.sleep(leftMs, this.#betweenPolls)
    } catch (error) {
      this.#firstPoll.resolve(error)
      if (this.#pollCourier.hasEnded) return
      polling.sink.onError(error)
      this.#failures += 1
      const base = Math.min(pauseMs, MAX_BACKOFF_MS)
      const delay = backoffMs(error, this.#failures, base, MAX_BACKOFF_MS)
      if (!this.#isQuiet) await this.#pollCourier.sleep(delay, this.#betweenPolls)
    }
  }

  async #fetch(
    count: number,
    waitMs: number,
    { workerId, queues }: SourceOptions,
  ): Promise<object[]> {
    const { visibilityTimeout } = this.#options
    const answer = await this.#pollCourier.send({
      method: 'POST',
      path: '/workers/fetch',
      timeout: waitMs + POLL_SLACK_MS,
      isUrgent: true,
      body: {
        queues,
        count,
        worker_id: workerId,
        wait_ms: waitMs,
        ...(visibilityTimeout !== undefined && { visibility_timeout_ms: visibilityTimeout }),
      },
    })
    // Only a heartbeat's answer counts: the directive here may have been meant for an earlier process.
    if (isDirective(answer.body['directive'])) this.#heartbeat?.beatSoon()
    return listIn(answer, 'jobs')
  }

  /** False: there was no job. */
  #take(
    jobs: readonly object[],
    leasedAt: number,
    { sink, worker, ahead, deps }: Polling,
  ): boolean {
    let isAny = false
    for (const answered of jobs) {
      const job = jobOf(answered, worker.queues)
      if (job) {
        isAny = true
        const lease = new HttpLease(job, leasedAt, deps)
        this.#leases.set(job.id, lease)
        this.#heartbeat?.leased(lease)
        ahead.put(lease)
      } else
        sink.onError(new TypeError('The server answered with a job that lacks its id or type.'))
    }
    return isAny
  }
}

function isRefusal(error: unknown): error is OJSError {
  if (!(error instanceof OJSError) || error.retryable) return false
  return [400, 401, 403, 404].includes(error.status ?? 0)
}

/** The job with all members that handlers rely on; `undefined`: the answer is not a job. */
function jobOf(job: unknown, queues: readonly string[]): Job | undefined {
  if (!isRecord(job)) return undefined
  const { id, type, queue, args, attempt } = job
  if (typeof id !== 'string' || typeof type !== 'string') return undefined
  return {
    ...job,
    id,
    type,
    queue: typeof queue === 'string' ? queue : (queues[0] ?? 'default'),
    args: Array.isArray(args) ? args : [],
    state: 'active',
    attempt: typeof attempt === 'number' && attempt >= 1 ? attempt : 1,
  }
}
