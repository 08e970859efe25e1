import { setTimeout as sleep } from 'node:timers/promises'
import { v7 } from 'uuid'
import { NativeWorker, type NativeWorkerOptions } from '../../src/worker/index.ts'
import { Journal, resultFor } from '../support/checker/checker.ts'
import { type Answer, type Job, jobsOf, type OjsClient } from '../support/gateway/client.ts'
import { Stopwatch } from '../support/time/stopwatch.ts'
import type { Random } from './random.ts'

export interface LoadOptions {
  client: OjsClient
  queue: string
  random: Random
  /** Pushing ends when so many jobs were answered 2xx; see also `want`. */
  jobs: number
  /** The retry policy of every job. */
  retry?: RetryPolicy
  /** Every job is due at a random moment within so many milliseconds. */
  withinMs?: number
  /** The ledger may be away: then a settlement is refused with 503, and is sent again. */
  isLedgerRemote?: boolean
}

interface RetryPolicy {
  max_attempts: number
  initial_interval_ms: number
  backoff_coefficient?: number
  jitter: boolean
}

export interface Workers {
  connections: number
  /** Jobs per FETCH. */
  count: number
  /** Jobs are acknowledged only after this; otherwise after up to 10 ms. */
  keepUntil?: Promise<unknown>
  /** The share of the first two attempts of a job that is failed with NACK: 0 to 1. */
  failShare?: number
}

const TYPE = 'crash.test'
const WAIT_MS = 300
/** Of jobs that name no other, as the gateway has it by default. */
const LEASE_MS = 30_000
const PROBE_MS = 100
/** For workers that fetch only once and must get a job, however busy the gateway is. */
const ONE_WAIT_MS = 10_000
const MAX_WORK_MS = 10
/**
 * A refused client tries again after this time. There are 64 clients: with ten tries a second each, they
 * took the CPU that a RabbitMQ needs to come back.
 */
const PAUSE_MS = 300
/** Later attempts succeed, so that no job uses up its attempts by failures of its workers alone. */
const MAX_FAILS = 2

/** Producers and workers with a connection each; every one waits for its answers and records them. */
export class Load {
  readonly journal = new Journal()
  readonly #options: LoadOptions
  readonly #pushers: Promise<void>[] = []
  readonly #workers: Promise<void>[] = []
  readonly #natives: NativeWorker[] = []
  readonly #waiting = new Set<() => void>()
  #wanted: number
  #gate = Promise.resolve()
  #openGate = () => {}
  #isOver = false
  #isAbandoned = false

  constructor(options: LoadOptions) {
    this.#options = options
    this.#wanted = options.jobs
  }

  startPushing(connections: number): void {
    const one = () => this.#pushOne()
    for (let i = 0; i < connections; i++) this.#pushers.push(this.#pushLoop(one))
  }

  /** Batches of `size` jobs each. */
  startPushingBatches(connections: number, size: number): void {
    const batch = () => this.#pushBatch(size)
    for (let i = 0; i < connections; i++) this.#pushers.push(this.#pushLoop(batch))
  }

  /** Keeps pushing until `moment` is over, even beyond the wanted number of jobs: `moment` needs the load. */
  async pushDuring<T>(moment: () => Promise<T>): Promise<T> {
    const wanted = this.#wanted
    this.#wanted = Number.POSITIVE_INFINITY
    try {
      return await moment()
    } finally {
      this.#wanted = wanted
    }
  }

  /** Pushes so many jobs more than there are. */
  want(jobs: number): void {
    this.#wanted = this.journal.accepted + jobs
  }

  /** Pushes at least so many jobs more, even if all wanted ones are pushed by now. */
  wantStill(jobs: number): void {
    this.#wanted = Math.max(this.#wanted, this.journal.accepted + jobs)
  }

  startWorking(workers: Workers): void {
    for (let i = 0; i < workers.connections; i++) this.#workers.push(this.#workLoop(workers))
  }

  /** A native worker on the same queue. */
  async startNativeWorker(options: NativeWorkerOptions): Promise<void> {
    const { queue } = this.#options
    const worker = new NativeWorker({
      ...{ queues: [queue], retryQueueSettleMs: 0, logger: false, handleSignals: false },
      ...options,
    })
    worker.register(TYPE, ({ job }) => {
      this.journal.executed(job.id)
      this.journal.acking(job.id)
      return resultFor(job.id)
    })
    this.#natives.push(worker)
    await worker.start()
  }

  /**
   * Resolves when a PUSH that begins from now on was accepted; says after how many milliseconds, without those in
   * which this machine stopped us.
   */
  async untilServed(): Promise<number> {
    const watch = new Stopwatch()
    return await new Promise((resolve) => {
      // Each on a connection of its own: one gateway may have stopped, with the PUSH in its hands.
      const probe = async () => {
        const { status } = await this.#pushOne()
        if (status !== 201) return
        clearInterval(timer)
        resolve(Math.round(watch.elapsedMs))
        watch.end()
      }
      const timer = setInterval(() => {
        if (this.#isAbandoned) clearInterval(timer)
        else this.#pushers.push(probe())
      }, PROBE_MS)
    })
  }

  /** Workers that fetch once, with leases of this length, and then vanish without a settlement. */
  async vanish({ connections, count }: Workers, leaseMs: number): Promise<void> {
    await Promise.all(Array.from({ length: connections }, () => this.#vanishOne(count, leaseMs)))
  }

  /** No client begins a new request until `resume`: the gateway is about to be killed. */
  suspend(): void {
    this.#gate = new Promise((resolve) => {
      this.#openGate = resolve
    })
  }

  resume(): void {
    this.#openGate()
  }

  /** Checks the journal after each answer until `isTrue`. */
  until(isTrue: (journal: Journal) => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (!isTrue(this.journal)) return
        this.#waiting.delete(look)
        resolve()
      }
      this.#waiting.add(look)
      look()
    })
  }

  /** Resolves when all jobs are pushed. */
  async pushed(): Promise<void> {
    await Promise.all(this.#pushers)
  }

  /** Resolves when every worker has acknowledged what it has, and asks for no more. */
  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all([...this.#pushers, ...this.#workers])
    await Promise.all(this.#natives.map((worker) => worker.stop()))
  }

  /** Ends all loops at their next check, because the run has failed. */
  abandon(): void {
    this.#isOver = true
    this.#isAbandoned = true
    this.resume()
    for (const worker of this.#natives) void worker.stop()
  }

  #changed(): void {
    for (const look of this.#waiting) look()
  }

  get isPushing(): boolean {
    return this.journal.accepted < this.#wanted && !this.#isOver
  }

  async #pushLoop(push: () => Promise<Answer>): Promise<void> {
    while (this.isPushing) {
      await this.#gate
      const { status } = await push()
      this.#changed()
      if (status !== 201) await sleep(PAUSE_MS)
    }
  }

  async #pushOne(): Promise<Answer> {
    const id = v7()
    this.journal.pushing(id)
    const answer = await this.#options.client.push(this.#job(id))
    this.#notePush([id], answer)
    return answer
  }

  async #pushBatch(size: number): Promise<Answer> {
    const ids = Array.from({ length: size }, () => v7())
    this.journal.pushingBatch(ids)
    const body = { jobs: ids.map((id) => this.#job(id)) }
    const answer = await this.#options.client.send('POST', '/ojs/v1/jobs/batch', body)
    this.#notePush(ids, answer)
    return answer
  }

  #job(id: string): object {
    const { queue, retry, withinMs } = this.#options
    const due = withinMs === undefined ? {} : { scheduled_at: this.#dueIn(id, withinMs) }
    return {
      id,
      type: TYPE,
      args: [id],
      options: { queue, ...(retry && { retry }), ...due },
    }
  }

  #dueIn(id: string, withinMs: number): string {
    const dueAt = Date.now() + this.#options.random.integer(0, withinMs)
    this.journal.due.set(id, dueAt)
    return new Date(dueAt).toISOString()
  }

  #notePush(ids: readonly string[], { status, text }: Answer): void {
    if (status === 0) return
    if (status !== 201 && status !== 503) this.journal.complain(`PUSH answered ${status}: ${text}`)
    for (const id of ids) this.journal.pushed(id, status === 201 ? 'accepted' : 'refused')
  }

  async #vanishOne(count: number, leaseMs: number): Promise<void> {
    const { client, queue } = this.#options
    const worker_id = `vanished-${v7()}`
    const lease = { worker_id, visibility_timeout_ms: leaseMs }
    const answer = await client.fetch({ queues: [queue], count, wait_ms: ONE_WAIT_MS, ...lease })
    this.#noteFetch(answer, count)
    for (const { id } of jobsOf(answer)) this.journal.abandon(id)
  }

  async #workLoop({ count, keepUntil, failShare = 0 }: Workers): Promise<void> {
    const { client, queue, random } = this.#options
    const worker_id = `worker-${v7()}`
    while (!this.#isOver) {
      await this.#gate
      const askedAt = Date.now()
      const answer = await client.fetch({ queues: [queue], count, worker_id, wait_ms: WAIT_MS })
      const jobs = jobsOf(answer)
      this.#noteFetch(answer, count)
      this.#changed()
      if (answer.status !== 200) await sleep(PAUSE_MS)
      else if (jobs.length > 0) await (keepUntil ?? sleep(random.integer(0, MAX_WORK_MS)))
      await Promise.all(
        jobs.map((job) => {
          const isFailed = Number(job['attempt']) <= MAX_FAILS && random.next() < failShare
          const held = { worker_id, askedAt }
          return isFailed ? this.#fail(job, held) : this.#acknowledge(job, held)
        }),
      )
    }
  }

  #noteFetch(answer: Answer, count: number): void {
    const { status, text } = answer
    for (const { id } of jobsOf(answer)) this.journal.executed(id)
    if (status === 0) this.journal.lostFetchAnswers += count
    else if (status !== 200 && status !== 503) {
      this.journal.complain(`FETCH answered ${status}: ${text}`)
    }
  }

  async #acknowledge({ id, attempt }: Job, { worker_id, askedAt }: Held): Promise<void> {
    const lease = { job_id: id, worker_id, attempt }
    this.journal.acking(id)
    const answer = await this.#settle('ack', { ...lease, result: resultFor(id) })
    if (answer?.status === 200) this.journal.acked(id)
    // A 409 after an ACK whose answer was lost: that ACK has completed the job.
    else if (answer?.isRepeated && isConflict(answer) && answer.text.includes('completed')) {
      this.journal.acked(id)
    } else if (answer && isConflict(answer) && isLeaseOver(askedAt)) this.journal.abandon(id)
    else if (answer) this.journal.complain(`ACK of ${id} answered ${answer.status}: ${answer.text}`)
    this.#changed()
  }

  async #fail({ id, attempt }: Job, { worker_id, askedAt }: Held): Promise<void> {
    const lease = { job_id: id, worker_id, attempt }
    const error = { code: 'crash.test', message: 'failed on purpose' }
    this.journal.failing(id)
    const answer = await this.#settle('nack', { ...lease, error })
    // A 409 after a NACK whose answer was lost: the job has gone on, as it should.
    const isDone = answer?.status === 200 || (answer?.isRepeated && isConflict(answer))
    if (answer && !isDone && isConflict(answer) && isLeaseOver(askedAt)) this.journal.abandon(id)
    else if (answer && !isDone) {
      this.journal.complain(`NACK of ${id} answered ${answer.status}: ${answer.text}`)
    }
    this.#changed()
  }

  /**
   * Repeats the request until it is answered; while a remote ledger is away, until it is not refused. The lease
   * stays in the ledger, so the answer must be 200.
   */
  async #settle(
    verb: 'ack' | 'nack',
    body: object,
  ): Promise<(Answer & { isRepeated: boolean }) | undefined> {
    for (let isRepeated = false; !this.#isAbandoned; isRepeated = true) {
      await this.#gate
      const answer = await this.#options.client.send('POST', `/ojs/v1/workers/${verb}`, body)
      const isRefused = answer.status === 503 && this.#options.isLedgerRemote === true
      if (answer.status !== 0 && !isRefused) return { ...answer, isRepeated }
      await sleep(PAUSE_MS)
    }
    return undefined
  }
}

/** A worker's hold on a job: who has it, and when it asked for it at the latest. */
interface Held {
  worker_id: string
  askedAt: number
}

/** On a machine that is too busy even an ACK comes too late, and the job has gone on, as it should. */
function isLeaseOver(askedAt: number): boolean {
  return Date.now() - askedAt > LEASE_MS
}

function isConflict({ status }: Answer): boolean {
  return status === 409
}
