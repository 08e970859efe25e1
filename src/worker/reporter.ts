/** Sends reports, several events in each, and repeats them until RabbitMQ confirms. */
import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PublishOutcome } from '../broker/broker.ts'
import { untilDeadline } from '../lifecycle.ts'
import type { Logger } from '../logger.ts'
import { MAX_EVENT_BYTES } from './event-text.ts'

/** Events in one message (docs/architecture.md §5). */
const MAX_EVENTS = 100
/** How long an event may wait for others. */
const MAX_WAIT_MS = 50
const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 1_000
/** Tries until a warning is logged: some seconds, because RabbitMQ may be restarting. */
const TRIES_UNTIL_WARNED = 8

export interface ReporterDeps {
  workerId: string
  logger: Logger
  /** Publishes to the control queue of `queue`; never rejects. */
  tell(queue: string, body: string): Promise<PublishOutcome>
  /** Called if the message was returned; resolves when the control queue may exist again. */
  ensure(queue: string): Promise<unknown>
}

interface Waiting {
  text: string
  /** A later event of the same execution makes this one unnecessary. */
  isSuperseded?: boolean
  /** Called with the outcome. */
  resolve(outcome: ReportOutcome): void
}

/**
 * Tells the gateway about the jobs that ran here: sends `ojs.control.report` messages with several events
 * each, and repeats each until RabbitMQ confirms it. No gateway has to be alive: the control queue keeps the
 * messages.
 *
 * The first event is sent at the end of the current turn of the event loop; while it is unconfirmed, others
 * gather for the next message. So one job need not wait, and thousands of jobs cost a few messages.
 */
export class Reporter {
  readonly #deps: ReporterDeps
  readonly #publishChannels = new Map<string, PublishChannel>()
  readonly #givingUp = new AbortController()

  constructor(deps: ReporterDeps) {
    this.#deps = deps
    // Each message that waits to be sent again has a listener here: Node.js would warn of a leak.
    setMaxListeners(0, this.#givingUp.signal)
  }

  /** Adds a `started` event: sent within 50 ms, or not at all if the same execution ends first. */
  started(queue: string, key: string, text: string): void {
    this.#publishChannel(queue).addStart(key, text)
  }

  /**
   * Adds an event. Resolves when RabbitMQ has confirmed it, when the reporter gave up at shutdown, or when
   * RabbitMQ will never accept it. `isStart`: a `started` event, which the next event of the same execution
   * makes unnecessary.
   */
  report(queue: string, key: string, text: string, isStart = false): Promise<ReportOutcome> {
    return this.#publishChannel(queue).add(key, text, isStart)
  }

  /** Sends all waiting events now. */
  flush(): void {
    for (const publishChannel of this.#publishChannels.values()) publishChannel.flush()
  }

  /** Sends all events. Resolves when all are confirmed, or at the deadline; sends nothing after that. */
  async stop(deadline: AbortSignal): Promise<void> {
    const giveUp = () => this.#givingUp.abort()
    if (deadline.aborted) giveUp()
    const drained = Promise.all(
      [...this.#publishChannels.values()].map((publishChannel) => publishChannel.drain()),
    )
    await untilDeadline(drained, deadline)
    giveUp()
  }

  #publishChannel(queue: string): PublishChannel {
    let publishChannel = this.#publishChannels.get(queue)
    if (!publishChannel) {
      publishChannel = new PublishChannel((batch) => this.#send(queue, batch))
      this.#publishChannels.set(queue, publishChannel)
    }
    return publishChannel
  }

  /** Sends a message until it is confirmed. Until then the worker keeps its deliveries: nothing is lost. */
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
        logger.warn(
          { queue, outcome },
          'reports of jobs cannot be delivered; the slots of these jobs stay taken',
        )
      }
      logger.debug({ queue, outcome }, 'report not confirmed; it is sent again')
      if (outcome === 'returned') await ensure(queue)
      await sleep(pauseMs, undefined, { signal: this.#givingUp.signal }).catch(() => {})
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)
    }
    return 'given-up'
  }
}

/** `too-large`: larger than RabbitMQ's `max_message_size`, so it will never be accepted. */
export type ReportOutcome = 'reported' | 'given-up' | 'too-large'

/** The reports of one queue. The gateway gets them in this order, except for repeated ones. */
class PublishChannel {
  readonly #send: (batch: readonly Waiting[]) => Promise<ReportOutcome>
  /** `started` events that wait, by execution. */
  readonly #starts = new Map<string, string>()
  /** `started` events that are under way or being repeated, by execution. */
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
    // A later event of an execution implies its start (docs/architecture.md §5).
    this.#starts.delete(key)
    // A `started` under way must not be repeated: after a `released` it would count as another start.
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
      // At the end of this turn, because mostly several jobs end in one turn.
      setImmediate(() => {
        this.#isDue = false
        this.flush()
      })
    }
  }

  async #publish(batch: readonly Waiting[]): Promise<void> {
    this.#inFlight += 1
    const outcome = await this.#send(batch)
    this.#inFlight -= 1
    if (outcome === 'too-large' && batch.length > 1) {
      // RabbitMQ may accept smaller messages.
      const middle = Math.ceil(batch.length / 2)
      for (const half of [batch.slice(0, middle), batch.slice(middle)]) void this.#publish(half)
      return
    }
    for (const { resolve } of batch) resolve(outcome)
    if (this.#inFlight > 0) return
    if (this.#waiting.length > 0) this.flush()
    else this.#onIdle?.()
  }
}

/** Splits the events into messages, limited in number and size. */
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
