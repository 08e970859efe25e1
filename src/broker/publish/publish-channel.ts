/** One confirm channel, with its publishes in flight and in line. */
import type { ConfirmChannel } from 'amqplib'
import type { Logger } from '../../logger.ts'
import { lent } from '../amqplib/shared-header-table.ts'
import type { PublishOutcome } from '../broker.ts'
import { classify, closeChannel, maxMessageBytesIn } from '../connection/channel-error.ts'
import { type Connection, isStill } from '../connection/connection.ts'
import { reconnectDelayMs } from '../connection/reconnect.ts'
import type { Outgoing } from '../messages/outgoing-message.ts'

/**
 * Most unconfirmed publishes per channel; further ones wait here. RabbitMQ stops reading the whole connection
 * when 400 publishes wait for one of its channels (`credit_flow_default_credit`).
 */
const WINDOW = 384

/** A publish on its way to RabbitMQ. */
export interface Publication {
  readonly id: string
  readonly queue: string
  readonly retryQueueMs: number | null
  readonly exchange: string
  readonly routingKey: string
  readonly bytes: number
  /** Null once the message is sent. */
  message: Outgoing | null
  /** `performance.now()` at the call of `send`; the timeout counts from here. */
  readonly since: number
  isSent: boolean
  isReturned: boolean
  /** Set once the outcome is decided; a later answer finds it set and changes nothing. */
  isSettled: boolean
  /** The publish channel in which it waits or was sent. */
  publishChannel: PublishChannel | null
  /** Tells the caller of `send`. */
  resolve(outcome: PublishOutcome): void
}

export interface PublishChannelDeps {
  connection: Connection
  logger: Logger
  random: () => number
  /** Sends one publish at a time, and none after an overdue one. */
  isProbe: boolean
  onSent(publication: Publication): void
  /** Called at most once per publication; a timeout may have settled it before. */
  onOutcome(publication: Publication, outcome: PublishOutcome): void
  onReturned(id: string): void
  onOpen(): void
  /** RabbitMQ closed the channel with this code. */
  onChannelError(code: unknown): void
  /** RabbitMQ closed the channel because a message was larger than this. */
  onTooLarge(maxBytes: number): void
  /** RabbitMQ closed the channel because the user may not publish; the text names the exchange. */
  onForbidden(text: string): void
}

/** One confirm channel and the publishes that go through it, in order. */
export class PublishChannel {
  readonly #deps: PublishChannelDeps
  #channel: ConfirmChannel | null = null
  readonly #waiting: Publication[] = []
  #inFlight = 0
  #overdue = 0
  #isFull = false
  #isHeld = false
  #isForbidden = false
  /** RabbitMQ's `max_message_size` in bytes, if exceeding it ended the last channel. */
  #maxBytes = Number.POSITIVE_INFINITY
  #onRetired: (() => void) | null = null
  #failures = 0
  #isTransmittingSoon = false
  /** Connection generation on which a channel is being opened; 0: none is. */
  #openingOn = 0

  constructor(deps: PublishChannelDeps) {
    this.#deps = deps
  }

  get isOpen(): boolean {
    return this.#channel !== null
  }

  get isHeld(): boolean {
    return this.#isHeld
  }

  /** Never rejects; retries for as long as the connection lives. */
  async open(): Promise<void> {
    const { connection } = this.#deps
    const { generation } = connection
    // A reopen scheduled on the old connection may coincide with the open of the new one: without this check
    // a second channel would stay open, unused, for ever.
    if (this.#channel || this.#openingOn === generation || this.#onRetired) return
    this.#openingOn = generation
    try {
      const channel = await connection.openConfirmChannel()
      if (isStill(connection, generation)) this.#use(channel)
    } catch (error) {
      if (!isStill(connection, generation)) return
      this.#deps.logger.warn({ err: error }, 'publish channel cannot be opened')
      this.#refuseWaiting()
      this.#closeIfDone()
      this.#reopenLater()
    } finally {
      if (this.#openingOn === generation) this.#openingOn = 0
    }
  }

  /** To be called when the connection is gone; amqplib has failed every unconfirmed publish already. */
  close(): void {
    this.#channel = null
    this.#isHeld = false
    this.#refuseWaiting()
    this.#onRetired?.()
  }

  send(publication: Publication): void {
    publication.publishChannel = this
    if (this.#isStuck || !(this.#channel || this.#isOpening)) {
      this.#deps.onOutcome(publication, 'refused')
    } else if (this.#mayTransmit && this.#waiting.length === 0) this.#transmit(publication)
    else this.#waiting.push(publication)
  }

  /** Sends nothing from now on; new publishes wait. */
  hold(): void {
    this.#isHeld = true
  }

  release(): void {
    this.#isHeld = false
    this.#transmitWaiting()
  }

  passOn(to: PublishChannel): void {
    for (const publication of this.#waiting.splice(0)) to.send(publication)
  }

  /**
   * The publish channel gets no new publishes. Its channel closes when everything sent is answered, however
   * late.
   */
  retire(onRetired: () => void): void {
    this.#onRetired = onRetired
    this.#transmitWaiting()
    this.#closeIfDone()
  }

  /**
   * Handles the timeout of a publish. Unsent: it leaves the line. Sent: it still counts against the window,
   * because RabbitMQ and amqplib still hold it.
   */
  giveUp(publication: Publication): void {
    if (!publication.isSent) {
      // The oldest is the first in line, so this finds it at once.
      const place = this.#waiting.indexOf(publication)
      if (place !== -1) this.#waiting.splice(place, 1)
      return
    }
    this.#inFlight -= 1
    this.#overdue += 1
    if (this.#isStuck) this.#refuseWaiting()
  }

  get #mayTransmit(): boolean {
    if (!this.#channel || this.#isHeld || this.#isFull) return false
    // A retired probe publish channel has had its answer: what waits behind it need not go one by one.
    const isProbing = this.#deps.isProbe && this.#onRetired === null
    return this.#inFlight + this.#overdue < (isProbing ? 1 : WINDOW)
  }

  get #isStuck(): boolean {
    return this.#deps.isProbe && this.#overdue > 0
  }

  get #isOpening(): boolean {
    return isStill(this.#deps.connection, this.#openingOn)
  }

  #closeIfDone(): void {
    if (!this.#onRetired || this.#inFlight + this.#overdue + this.#waiting.length > 0) return
    if (this.#channel) void closeChannel(this.#channel)
    else this.#onRetired()
  }

  #use(channel: ConfirmChannel): void {
    this.#channel = channel
    this.#isFull = false
    channel.on('return', (message) => this.#deps.onReturned(String(message.properties.messageId)))
    channel.on('drain', () => {
      this.#isFull = false
      this.#transmitWaiting()
    })
    this.#isForbidden = false
    this.#maxBytes = Number.POSITIVE_INFINITY
    // amqplib emits `error` first, and then rejects the unconfirmed publishes.
    channel.on('error', (error: Error & { code?: unknown }) => this.#onError(error))
    channel.on('close', () => {
      if (this.#channel !== channel) return
      this.close()
      if (this.#deps.connection.isUp) this.#reopenLater()
    })
    this.#deps.onOpen()
    this.#transmitWaiting()
    // The publish that this publish channel was opened for may have timed out meanwhile.
    this.#closeIfDone()
  }

  #onError(error: Error & { code?: unknown }): void {
    const failure = classify(error)
    this.#isForbidden = failure.kind === 'access-refused'
    if (failure.kind === 'access-refused') this.#deps.onForbidden(failure.text)
    const maxBytes = maxMessageBytesIn(error)
    if (maxBytes !== null) {
      this.#maxBytes = maxBytes
      this.#deps.onTooLarge(maxBytes)
    }
    this.#deps.onChannelError(error.code)
  }

  #transmit(publication: Publication): void {
    if (!this.#write(publication)) {
      this.#deps.onOutcome(publication, 'refused')
      return
    }
    publication.isSent = true
    // Frees the body, which is no longer needed: a confirm that never comes must not keep it in memory.
    publication.message = null
    this.#inFlight += 1
    this.#deps.onSent(publication)
  }

  /** False: nothing was written, and nothing will be. */
  #write(publication: Publication): boolean {
    const { message } = publication
    if (!this.#channel || !message) return false
    const { exchange, routingKey, content, options } = message
    const onConfirm = (error: unknown) => this.#onConfirm(publication, error)
    const { headers } = options
    try {
      if (headers !== undefined) options.headers = lent(headers)
      const hasRoom = this.#channel.publish(exchange, routingKey, content, options, onConfirm)
      if (!hasRoom) this.#isFull = true
      return true
    } catch (error) {
      // The channel is closing, or amqplib cannot encode this message.
      this.#deps.logger.warn(
        { err: error, jobId: publication.id },
        'message cannot be written to the channel',
      )
      return false
    } finally {
      // The caller may publish the same message once more.
      if (headers !== undefined) options.headers = headers
    }
  }

  #onConfirm(publication: Publication, error: unknown): void {
    if (publication.isSettled) this.#overdue -= 1
    else {
      this.#inFlight -= 1
      const outcome = outcomeOf(publication, error)
      const isLost = outcome === 'unknown'
      if (!isLost) this.#failures = 0
      this.#deps.onOutcome(publication, isLost ? this.#lossOf(publication) : outcome)
    }
    if (this.#waiting.length > 0) this.#transmitSoon()
    else this.#closeIfDone()
  }

  /** Why the channel closed before this publish was answered. */
  #lossOf({ bytes }: Publication): PublishOutcome {
    if (bytes > this.#maxBytes) return 'too-large'
    return this.#isForbidden ? 'forbidden' : 'unknown'
  }

  /** One frame of RabbitMQ's may confirm many publishes: transmit once for all of them. */
  #transmitSoon(): void {
    if (this.#isTransmittingSoon) return
    this.#isTransmittingSoon = true
    queueMicrotask(() => {
      this.#isTransmittingSoon = false
      this.#transmitWaiting()
      this.#closeIfDone()
    })
  }

  #transmitWaiting(): void {
    let taken = 0
    while (taken < this.#waiting.length && this.#mayTransmit) {
      const publication = this.#waiting[taken]
      taken += 1
      if (publication) this.#transmit(publication)
    }
    this.#waiting.splice(0, taken)
  }

  #refuseWaiting(): void {
    for (const publication of this.#waiting.splice(0)) {
      this.#deps.onOutcome(publication, 'refused')
    }
  }

  #reopenLater(): void {
    if (this.#onRetired) return
    this.#failures += 1
    // The first reopen is immediate: one refused message must not stop a quarter of all queues.
    const delayMs =
      this.#failures === 1 ? 0 : reconnectDelayMs(this.#failures - 1, this.#deps.random)
    setTimeout(() => {
      if (this.#deps.connection.isUp) void this.open()
    }, delayMs).unref()
  }
}

/** amqplib passes null for `basic.ack`, and an error for `basic.nack` and for a lost channel. */
function outcomeOf(publication: Publication, error: unknown): PublishOutcome {
  // RabbitMQ first returns an unroutable message and then confirms it.
  if (error === null) return publication.isReturned ? 'returned' : 'confirmed'
  return error instanceof Error && error.message === 'message nacked' ? 'nacked' : 'unknown'
}
