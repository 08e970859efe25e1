import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PublishOutcome } from '../broker/broker.ts'
import { untilDeadline } from '../lifecycle.ts'
import type { Logger } from '../logger.ts'
import { MAX_EVENT_BYTES } from './event-text.ts'

/** Events of one message (architecture §5). */
const MAX_EVENTS = 100
/** How long an event may wait for others. */
const MAX_WAIT_MS = 50
const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 1_000
/** Some seconds of failures: until then RabbitMQ may be restarting. */
const TRIES_UNTIL_WARNED = 8

export interface ReporterDeps {
  workerId: string
  logger: Logger
  /** Publishes to the control queue of `queue`; never rejects. */
  tell(queue: string, body: string): Promise<PublishOutcome>
  /** No control queue took it: resolves when it may be there again. */
  ensure(queue: string): Promise<unknown>
}

interface Waiting {
  text: string
  /** What came after it says more. */
  isSuperseded?: boolean
  /** Told what became of it. */
  resolve(outcome: ReportOutcome): void
}

/**
 * What the gateway must know of jobs that ran here: `ojs.control.report`, batched, confirmed, and
 * repeated until RabbitMQ has it. No gateway has to be alive: the control queue keeps it.
 *
 * The first of several reports goes out at the end of its turn; while it is unconfirmed, others
 * gather for the next message. So one job costs no wait, and thousands cost a few messages.
 */
export class Reporter {
  readonly #deps: ReporterDeps
  readonly #lanes = new Map<string, Lane>()
  readonly #givingUp = new AbortController()

  constructor(deps: ReporterDeps) {
    this.#deps = deps
    // Of each queue several messages may wait to be sent again.
    setMaxListeners(0, this.#givingUp.signal)
  }

  /** Goes out within 50 ms, or not at all when the end of the same execution comes first. */
  started(queue: string, key: string, text: string): void {
    this.#lane(queue).addStart(key, text)
  }

  /**
   * Resolves when RabbitMQ has confirmed it, when we gave up at the end, or where it never will.
   * `isStart`: of a start, which what comes next of its execution makes unnecessary.
   */
  report(queue: string, key: string, text: string, isStart = false): Promise<ReportOutcome> {
    return this.#lane(queue).add(key, text, isStart)
  }

  /** Everything that waits goes out now. */
  flush(): void {
    for (const lane of this.#lanes.values()) lane.flush()
  }

  /** Resolves when everything is confirmed, or at the deadline; nothing is sent after that. */
  async stop(deadline: AbortSignal): Promise<void> {
    const giveUp = () => this.#givingUp.abort()
    if (deadline.aborted) giveUp()
    const drained = Promise.all([...this.#lanes.values()].map((lane) => lane.drain()))
    await untilDeadline(drained, deadline)
    giveUp()
  }

  #lane(queue: string): Lane {
    let lane = this.#lanes.get(queue)
    if (!lane) {
      lane = new Lane((batch) => this.#send(queue, batch))
      this.#lanes.set(queue, lane)
    }
    return lane
  }

  /** A worker that cannot report keeps its deliveries: nothing is lost. */
  async #send(queue: string, batch: readonly Waiting[]): Promise<ReportOutcome> {
    const { tell, ensure, logger, workerId } = this.#deps
    let pauseMs = FIRST_PAUSE_MS
    for (let tries = 1; !this.#givingUp.signal.aborted; tries++) {
      const events = batch.filter(({ isSuperseded }) => !isSuperseded).map(({ text }) => text)
      if (events.length === 0) return 'reported'
      const by = JSON.stringify(workerId)
      const outcome = await tell(queue, `{"worker_id":${by},"events":[${events.join(',')}]}`)
      if (outcome === 'confirmed') return 'reported'
      if (outcome === 'too-large') return 'too-large'
      if (tries === TRIES_UNTIL_WARNED) {
        logger.warn({ queue, outcome }, 'what ran here cannot be reported; its slots stay taken')
      }
      logger.debug({ queue, outcome }, 'report not confirmed, again')
      if (outcome === 'returned') await ensure(queue)
      await sleep(pauseMs, undefined, { signal: this.#givingUp.signal }).catch(() => {})
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)
    }
    return 'given-up'
  }
}

/** `too-large`: for RabbitMQ (`max_message_size`), which will never take it. */
export type ReportOutcome = 'reported' | 'given-up' | 'too-large'

/** The reports of one queue, which its gateway consumer gets in this order but for those repeated. */
class Lane {
  readonly #send: (batch: readonly Waiting[]) => Promise<ReportOutcome>
  /** By execution. */
  readonly #starts = new Map<string, string>()
  /** Those that are on their way, or repeated. */
  readonly #startsSent = new Map<string, Waiting>()
  #waiting: Waiting[] = []
  #inFlight = 0
  #isDue = false
  #timer: NodeJS.Timeout | undefined
  #onIdle: (() => void) | null = null

  constructor(send: (batch: readonly Waiting[]) => Promise<ReportOutcome>) {
    this.#send = send
  }

  addStart(key: string, text: string): void {
    this.#starts.set(key, text)
    if (this.#starts.size >= MAX_EVENTS) this.flush()
    else this.#timer ??= setTimeout(() => this.flush(), MAX_WAIT_MS)
  }

  add(key: string, text: string, isStart: boolean): Promise<ReportOutcome> {
    // The end implies the start: it is the later position of the same execution (architecture §5).
    this.#starts.delete(key)
    // Nor is it repeated: behind a `released` it would count as another one.
    const start = this.#startsSent.get(key)
    if (start) start.isSuperseded = true
    return new Promise((resolve) => {
      this.#waiting.push(isStart ? this.#start(key, text, resolve) : { text, resolve })
      this.#schedule()
    })
  }

  flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const starts = [...this.#starts].map(([key, text]) => this.#start(key, text))
    this.#starts.clear()
    const all = [...starts, ...this.#waiting]
    this.#waiting = []
    for (const batch of batches(all)) void this.#publish(batch)
  }

  #start(key: string, text: string, tell: Waiting['resolve'] = () => undefined): Waiting {
    const resolve = (outcome: ReportOutcome) => {
      if (this.#startsSent.get(key) === start) this.#startsSent.delete(key)
      tell(outcome)
    }
    const start: Waiting = { text, resolve }
    this.#startsSent.set(key, start)
    return start
  }

  async drain(): Promise<void> {
    this.flush()
    if (this.#inFlight === 0) return
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve
    })
  }

  #schedule(): void {
    if (this.#waiting.length >= MAX_EVENTS) this.flush()
    else if (this.#inFlight > 0) this.#timer ??= setTimeout(() => this.flush(), MAX_WAIT_MS)
    else if (!this.#isDue) {
      this.#isDue = true
      // After the settlements of this turn, which mostly come several at once.
      setImmediate(() => {
        this.#isDue = false
        this.flush()
      })
    }
  }

  async #publish(batch: readonly Waiting[]): Promise<void> {
    this.#inFlight += 1
    const told = await this.#send(batch)
    this.#inFlight -= 1
    if (told === 'too-large' && batch.length > 1) {
      // Perhaps RabbitMQ takes smaller ones.
      const middle = Math.ceil(batch.length / 2)
      for (const half of [batch.slice(0, middle), batch.slice(middle)]) void this.#publish(half)
      return
    }
    for (const { resolve } of batch) resolve(told)
    if (this.#inFlight > 0) return
    if (this.#waiting.length > 0) this.flush()
    else this.#onIdle?.()
  }
}

/** By number and by size. */
function* batches(all: readonly Waiting[]): Generator<Waiting[]> {
  let batch: Waiting[] = []
  let bytes = 0
  for (const entry of all) {
    const more = Buffer.byteLength(entry.text) + 1
    if (batch.length >= MAX_EVENTS || (batch.length > 0 && bytes + more > MAX_EVENT_BYTES)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(entry)
    bytes += more
  }
  if (batch.length > 0) yield batch
}
