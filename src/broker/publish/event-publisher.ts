/** Events on their way to `ojs.exchange.events`: from the memory that has them anyway, in order, with confirms. */
import type { ConfirmChannel } from 'amqplib'
import { isQueueName } from '../../job/queue-name.ts'
import type { Logger } from '../../logger.ts'
import { type Connection, isStill } from '../connection/connection.ts'
import { reconnectDelayMs } from '../connection/reconnect.ts'
import type { EventExchangeObserver } from '../observer.ts'

/** How often new events are looked for. */
const PUMP_MS = 20
/** How many are written before the event loop serves others. */
const SLICE = 100
/** Most events without a confirm. */
const WINDOW = 1_000

/** Where the events are: each has a number, and the oldest ones go. */
export interface EventSource {
  /** The number of the oldest event that is kept. */
  readonly oldest: number
  /** The number of the next event. */
  readonly end: number
  /** Null: it is not kept any more. */
  follow(number: number, isWanted: () => boolean): SentEvent | null
}

interface SentEvent {
  recorded: { id: string; type: string; time: string }
  queue: string | null
}

export interface EventPublisherDeps {
  connection: Connection
  exchange: string
  source: EventSource
  logger: Logger
  random: () => number
  observer: EventExchangeObserver
  /** RabbitMQ closed the channel with this code. */
  onChannelError(code: unknown): void
}

const isWanted = () => true

/**
 * Publishes every event of a source, in order. Keeps none: only its place in the source, so that a RabbitMQ that
 * stands still costs no memory and no producer waits. What the source has forgotten meanwhile is counted as dropped.
 * After a lost channel it goes on with the oldest event that has no confirm, and may publish some twice.
 */
export class EventPublisher {
  readonly #deps: EventPublisherDeps
  #channel: ConfirmChannel | null = null
  /** The number of the next event to publish. */
  #next: number
  /** Numbers of events without a confirm, in ascending order. */
  readonly #unconfirmed = new Set<number>()
  #isPumpingSoon = false
  #failures = 0
  #timer: NodeJS.Timeout | undefined

  constructor(deps: EventPublisherDeps) {
    this.#deps = deps
    this.#next = deps.source.end
    deps.connection.listen({
      up: () => void this.#open(),
      down: () => this.#closed(this.#channel),
    })
  }

  /** Opens the connection, and waits for nothing. */
  start(): void {
    void this.#deps.connection.start()
    this.#timer ??= setInterval(() => this.#pump(), PUMP_MS).unref()
  }

  /** Resolves when everything has a confirm, when nothing can be published, or at the deadline. */
  async stop(deadline: AbortSignal): Promise<void> {
    while (this.#channel && this.pending > 0 && !deadline.aborted) {
      this.#pump()
      await new Promise((resolve) => setTimeout(resolve, PUMP_MS))
    }
    clearInterval(this.#timer)
  }

  /** Events that have no confirm, published or not. */
  get pending(): number {
    return this.#deps.source.end - this.#next + this.#unconfirmed.size
  }

  async #open(): Promise<void> {
    const { connection, logger, onChannelError } = this.#deps
    const { generation } = connection
    try {
      const channel = await connection.openConfirmChannel()
      channel.on('error', (error: Error & { code?: unknown }) => {
        logger.warn({ err: error }, 'events cannot be published')
        onChannelError(error.code)
      })
      channel.on('close', () => this.#closed(channel))
      this.#channel = channel
    } catch (error) {
      if (!isStill(connection, generation)) return
      logger.warn({ err: error }, 'the channel for events cannot be opened')
      this.#reopenLater()
    }
  }

  #closed(channel: ConfirmChannel | null): void {
    if (channel === null || this.#channel !== channel) return
    this.#channel = null
    const [oldest = this.#next] = this.#unconfirmed
    this.#next = oldest
    this.#unconfirmed.clear()
    if (this.#deps.connection.isUp) this.#reopenLater()
  }

  #reopenLater(): void {
    const { connection, random } = this.#deps
    const { generation } = connection
    this.#failures += 1
    setTimeout(
      () => {
        if (isStill(connection, generation)) void this.#open()
      },
      reconnectDelayMs(this.#failures, random),
    ).unref()
  }

  #pump(): void {
    this.#skipForgotten()
    for (let written = 0; this.#mayPublish; written++) {
      if (written === SLICE) {
        this.#pumpSoon()
        return
      }
      this.#publish(this.#next)
    }
  }

  get #mayPublish(): boolean {
    if (this.#channel === null || this.#unconfirmed.size >= WINDOW) return false
    return this.#next < this.#deps.source.end
  }

  #skipForgotten(): void {
    const { source, observer } = this.#deps
    const forgotten = source.oldest - this.#next
    if (forgotten <= 0) return
    observer.dropped(forgotten)
    this.#next = source.oldest
  }

  #pumpSoon(): void {
    if (this.#isPumpingSoon) return
    this.#isPumpingSoon = true
    setImmediate(() => {
      this.#isPumpingSoon = false
      this.#pump()
    })
  }

  #publish(number: number): void {
    const { source, exchange } = this.#deps
    const event = source.follow(number, isWanted)
    this.#next = number + 1
    const channel = this.#channel
    if (event === null || channel === null) return
    const { recorded, queue } = event
    const options = {
      ...{ messageId: recorded.id, type: recorded.type, contentType: 'application/json' },
      ...{ timestamp: Math.floor(Date.parse(recorded.time) / 1_000), persistent: true },
    }
    this.#unconfirmed.add(number)
    const content = Buffer.from(JSON.stringify(recorded))
    try {
      channel.publish(exchange, eventKey(recorded.type, queue), content, options, (error) =>
        this.#confirmed(channel, number, error),
      )
    } catch {
      // The channel is closing; its `close` comes, and goes back to this event.
    }
  }

  #confirmed(channel: ConfirmChannel, number: number, error: unknown): void {
    // A lost channel fails all of its publishes: they are published again.
    if (this.#channel !== channel || !isAnswer(error)) return
    const { observer } = this.#deps
    this.#unconfirmed.delete(number)
    this.#failures = 0
    if (error === null) observer.published()
    else observer.dropped(1)
  }
}

/** amqplib passes null for `basic.ack`, and for `basic.nack` (a bound queue that is full) this error. */
function isAnswer(error: unknown): boolean {
  return error === null || (error instanceof Error && error.message === 'message nacked')
}

/** `{event}.{queue}`; `_`, which no queue is called, if the event belongs to none. Far below AMQP's 255 bytes. */
export function eventKey(type: string, queue: string | null): string {
  return `${type}.${queue !== null && isQueueName(queue) ? queue : '_'}`
}
