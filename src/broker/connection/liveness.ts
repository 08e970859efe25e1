/** Is a connection still answered? Found by the requests on its channels. */
import type { Channel, ChannelModel } from 'amqplib'
import { bytesReadOf } from '../amqplib/connect.ts'

/** Reason of a connection that was ended because RabbitMQ answered nothing on any of its channels. */
export const SILENT = 'RabbitMQ does not answer on this connection any more'

const LOOK_MS = 5_000
// All limits count looks, not time: a process that was suspended has yet to read the answers.
/** After so many looks at an unanswered request, a new channel is opened as a test. */
const DOUBTED_AFTER = 1
/** After so many looks without an answer to it, the connection ends. A very busy RabbitMQ takes seconds. */
const SILENT_AFTER = 6
/** More than heartbeats bring between two looks: the answer may be behind these bytes. */
const MANY_BYTES = 1_024
/**
 * Requests to a queue without a leader take up to 65 s, after which RabbitMQ ends the connection itself. A
 * `channel.close` may wait behind very many acknowledgements (`dead-letter-sweep.ts`).
 */
const LOST_AFTER = 60
/** After so many looks without a request, an idle connection is sent one. */
const IDLE_LOOKS = 6
/** The tag of no consumer: RabbitMQ confirms its `basic.cancel` and does nothing. */
const NO_TAG = 'ojs.nobody'

/** The members of amqplib's channels that its types lack. */
interface LookedAt extends Channel {
  /** Receives the answer to the pending request; null without one. */
  reply: unknown
}

interface Wait {
  /** Identifies the pending request: the function that receives its answer. */
  for: unknown
  looks: number
}

export interface AnswerWatchOptions {
  lookMs?: number | undefined
  /** True while RabbitMQ has announced that it does not read from this connection. */
  isBlocked(): boolean
  /** Called once when the connection has become useless. */
  onSilent(reason: string): void
}

/**
 * Detects a connection on which RabbitMQ no longer answers requests. Heartbeats do not show that: after bytes
 * were lost or a frame's length was damaged on the way, one side waits for the rest of a frame and takes all
 * heartbeats for a part of it. Both sides then consider the connection alive, and requests wait for ever.
 *
 * A slow answer alone proves nothing, because its channel may wait for a quorum queue. But RabbitMQ opens a
 * new channel at once, so an unanswered `channel.open` does, unless deliveries arrive meanwhile: a process
 * whose handlers block the event loop reads only a few of them between two looks, and the answer comes last.
 * A request that waits for `LOST_AFTER` looks is lost in any case.
 */
export class AnswerWatch {
  readonly #model: ChannelModel
  readonly #options: AnswerWatchOptions
  readonly #timer: NodeJS.Timeout
  #waits = new Map<LookedAt, Wait>()
  /** Looks since the test channel was requested, but those with `MANY_BYTES`; null: none is requested. */
  #asking: number | null = null
  #bytesRead = 0
  #idleLooks = 0

  constructor(model: ChannelModel, options: AnswerWatchOptions) {
    this.#model = model
    this.#options = options
    this.#timer = setInterval(() => this.#look(), options.lookMs ?? LOOK_MS).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    if (this.#options.isBlocked()) {
      this.#waits.clear()
      if (this.#asking !== null) this.#asking = 0
      return
    }
    const isReceiving = this.#isReceiving()
    if (this.#asking !== null && !isReceiving) this.#asking += 1
    if (this.#asking !== null && this.#asking >= SILENT_AFTER) {
      this.#end(SILENT)
      return
    }
    const open = this.#channels()
    this.#waits = new Map(open.flatMap((channel) => this.#waitOf(channel)))
    const longest = Math.max(...[...this.#waits.values()].map(({ looks }) => looks))
    if (longest >= LOST_AFTER) {
      this.#end('RabbitMQ has left a request unanswered')
      return
    }
    if (longest >= DOUBTED_AFTER) this.#ask()
    this.#askIdle(open)
  }

  /** True when more than heartbeats was read since the last look. */
  #isReceiving(): boolean {
    const before = this.#bytesRead
    this.#bytesRead = bytesReadOf(this.#model)
    return this.#bytesRead - before > MANY_BYTES
  }

  /**
   * Sends a harmless request if none was pending for a while: a dead connection would not be noticed. Needs a
   * channel; without one no consumer or publish depends on the connection.
   */
  #askIdle(open: readonly LookedAt[]): void {
    this.#idleLooks = this.#waits.size > 0 ? 0 : this.#idleLooks + 1
    const channel = open.at(-1)
    if (channel === undefined || this.#idleLooks < IDLE_LOOKS) return
    this.#idleLooks = 0
    // Rejects when the channel ends first. Without an answer it is lost, and so is all that waits behind it.
    channel.cancel(NO_TAG).catch(() => {})
  }

  #waitOf(channel: LookedAt): [LookedAt, Wait][] {
    const taker = isClosing(channel) ? channel.accept : channel.reply
    if (!taker) return []
    const before = this.#waits.get(channel)
    return [[channel, { for: taker, looks: before?.for === taker ? before.looks + 1 : 0 }]]
  }

  #ask(): void {
    if (this.#asking !== null) return
    this.#asking = 0
    const forget = () => {
      this.#asking = null
    }
    const opened = this.#model.createChannel().then((channel) => {
      channel.on('error', () => {})
      return channel.close()
    })
    // Rejects when no channel number is left or the connection has ended: neither proves silence.
    opened.then(forget, forget)
  }

  #end(reason: string): void {
    this.stop()
    this.#options.onSilent(reason)
  }

  /** Empty if amqplib has changed and no longer exposes its channels. */
  #channels(): LookedAt[] {
    const { channels } = this.#model.connection as { channels?: ({ channel: unknown } | null)[] }
    if (!Array.isArray(channels)) return []
    // Channel 0 is the connection itself.
    return channels.slice(1).flatMap((entry) => (entry ? [entry.channel as LookedAt] : []))
  }
}

/** True after `channel.close` was sent: amqplib then gives the channel an `accept` of its own. */
function isClosing(channel: LookedAt): channel is LookedAt & { accept: unknown } {
  return Object.hasOwn(channel, 'accept')
}
