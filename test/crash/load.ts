import { setTimeout as sleep } from 'node:timers/promises'
import { v7 } from 'uuid'
import { Journal, resultFor } from '../support/checker.ts'
import { type Answer, type Job, jobsOf, type OjsClient } from '../support/client.ts'
import type { Random } from './random.ts'

export interface LoadOptions {
  client: OjsClient
  queue: string
  random: Random
  /** Pushing ends when so many were answered 2xx. */
  jobs: number
}

export interface Workers {
  connections: number
  /** Jobs per FETCH. */
  count: number
  /** Their jobs are acknowledged only after this; otherwise after up to 10 ms. */
  keepUntil?: Promise<unknown>
}

const WAIT_MS = 300
const MAX_WORK_MS = 10
/** A refused client tries again after this. */
const PAUSE_MS = 100

/** Producers and workers on a connection each, closed loops, writing down what they are told. */
export class Load {
  readonly journal = new Journal()
  readonly #options: LoadOptions
  readonly #pushers: Promise<void>[] = []
  readonly #workers: Promise<void>[] = []
  readonly #waiting = new Set<() => void>()
  #gate = Promise.resolve()
  #openGate = () => {}
  #isOver = false
  #isAbandoned = false

  constructor(options: LoadOptions) {
    this.#options = options
  }

  startPushing(connections: number): void {
    for (let i = 0; i < connections; i++) this.#pushers.push(this.#pushLoop())
  }

  startWorking(workers: Workers): void {
    for (let i = 0; i < workers.connections; i++) this.#workers.push(this.#workLoop(workers))
  }

  /** Nobody begins a new request until `resume`: the gateway is about to be gone. */
  suspend(): void {
    this.#gate = new Promise((resolve) => {
      this.#openGate = resolve
    })
  }

  resume(): void {
    this.#openGate()
  }

  /** Looks at the journal after each answer until `isTrue`. */
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

  /** All jobs are pushed. */
  async pushed(): Promise<void> {
    await Promise.all(this.#pushers)
  }

  /** Every worker has acknowledged what it has and asks for no more. */
  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all([...this.#pushers, ...this.#workers])
  }

  /** The run has failed: loops end at their next look. */
  abandon(): void {
    this.#isOver = true
    this.#isAbandoned = true
    this.resume()
  }

  #changed(): void {
    for (const look of this.#waiting) look()
  }

  async #pushLoop(): Promise<void> {
    const { client, queue, jobs } = this.#options
    while (!this.#isOver && this.journal.accepted < jobs) {
      await this.#gate
      const id = v7()
      this.journal.pushing(id)
      const answer = await client.push({ id, type: 'crash.test', args: [id], options: { queue } })
      this.#notePush(id, answer)
      this.#changed()
      if (answer.status !== 201) await sleep(PAUSE_MS)
    }
  }

  #notePush(id: string, { status, text }: Answer): void {
    if (status === 0) return
    if (status !== 201 && status !== 503) this.journal.complain(`PUSH answered ${status}: ${text}`)
    this.journal.pushed(id, status === 201 ? 'accepted' : 'refused')
  }

  async #workLoop({ count, keepUntil }: Workers): Promise<void> {
    const { client, queue, random } = this.#options
    const worker_id = `worker-${v7()}`
    while (!this.#isOver) {
      await this.#gate
      const answer = await client.fetch({ queues: [queue], count, worker_id, wait_ms: WAIT_MS })
      const jobs = jobsOf(answer)
      for (const { id } of jobs) this.journal.executed(id)
      this.#noteFetch(answer, count)
      this.#changed()
      if (answer.status !== 200) await sleep(PAUSE_MS)
      else if (jobs.length > 0) await (keepUntil ?? sleep(random.integer(0, MAX_WORK_MS)))
      await Promise.all(jobs.map((job) => this.#acknowledge(job, worker_id)))
    }
  }

  #noteFetch({ status, text }: Answer, count: number): void {
    if (status === 0) this.journal.lostFetchAnswers += count
    else if (status !== 200 && status !== 503) {
      this.journal.complain(`FETCH answered ${status}: ${text}`)
    }
  }

  /** Asks until there is an answer: the lease lives on in the ledger, so it must be 200. */
  async #acknowledge({ id, attempt }: Job, worker_id: string): Promise<void> {
    const result = resultFor(id)
    for (let isRepeated = false; !this.#isAbandoned; isRepeated = true) {
      await this.#gate
      this.journal.acking(id)
      const answer = await this.#options.client.ack({ job_id: id, worker_id, attempt, result })
      if (answer.status === 0) {
        await sleep(PAUSE_MS)
        continue
      }
      // 409 after an ACK whose answer was lost: that one has done it.
      const isDone = isRepeated && answer.status === 409 && answer.text.includes('completed')
      if (answer.status === 200 || isDone) this.journal.acked(id)
      else this.journal.complain(`ACK of ${id} answered ${answer.status}: ${answer.text}`)
      this.#changed()
      return
    }
  }
}
