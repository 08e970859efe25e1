/** Takes stale copies out of a dead letter queue, in one pass over its messages. */
import type { Channel, ConsumeMessage } from 'amqplib'
import type { DeadLetterCopy, SweptDeadLetters } from '../broker.ts'
import { closeChannel } from '../connection/channel-error.ts'
import type { Connection } from '../connection/connection.ts'
import { factsOf } from '../messages/incoming-message.ts'

/** AMQP's field is 16 bits wide; also the most that one sweep reads. */
const MAX_PREFETCH = 65_535
/** A busy queue delivers within milliseconds. */
const QUIET_MS = 2_000
/**
 * How long RabbitMQ may take to process the acknowledgements. Its channel searches all survivors for each:
 * measured 0.2 s for 1,000 among 3,000 copies, 16 s for 6,700 among 20,000.
 */
const FLUSH_MS = 60_000

/**
 * Reads the present messages of the queue `source`, at most `limit`, and acknowledges every one for which
 * `isStale` returns true; see `Broker.sweepDeadLetters`.
 *
 * Closing the channel gives the others back. Nothing else keeps their order in a quorum queue of RabbitMQ
 * 3.10.8: measured with 3,000, they came back shuffled after single `basic.nack`s in ascending order (32
 * commands are in flight, further ones are batched and reversed) and after a `multiple` one, and in order in
 * all rounds after a close without a preceding `basic.cancel`. Returned messages stand before those never
 * delivered, so a queue longer than `limit` keeps its order only if the next sweep's limit is not smaller.
 *
 * `quietMs`: after this long without a delivery, other consumers are assumed to hold the remaining messages.
 */
export async function sweepQueue(
  connection: Pick<Connection, 'openChannel'>,
  source: string,
  limit: number,
  isStale: (copy: DeadLetterCopy) => Promise<boolean>,
  quietMs = QUIET_MS,
): Promise<SweptDeadLetters | null> {
  const channel = await connection.openChannel().catch(() => null)
  if (!channel) return null
  try {
    const { messageCount } = await channel.checkQueue(source)
    const count = Math.min(messageCount, limit, MAX_PREFETCH)
    const reader = new Reader(channel, count, isStale, quietMs)
    if (count > 0 && !(await reader.read(source))) return null
    const { removed, kept } = reader
    return { removed, kept, isComplete: removed + kept >= messageCount }
  } catch {
    // The queue does not exist, is forbidden, or the connection was lost.
    return null
  } finally {
    await closeChannel(channel)
  }
}

/**
 * One pass over a queue. Keeps no survivors in memory: they stay unacknowledged on the channel.
 *
 * When it closes, a quorum queue's channel process forgets acknowledgements beyond the 32 in flight
 * (measured: 5 of 50 came back). So the last stale message is not acknowledged but requeued; when it is
 * redelivered, RabbitMQ has applied everything before it.
 */
class Reader {
  removed = 0
  kept = 0
  readonly #channel: Channel
  readonly #count: number
  readonly #isStale: (copy: DeadLetterCopy) => Promise<boolean>
  readonly #quietMs: number
  /** The last stale message, not acknowledged yet. */
  #held: ConsumeMessage | null = null
  #isReading = true
  /** Messages are judged one after the other, in the order of the queue. */
  #judged: Promise<void> = Promise.resolve()
  #timer: NodeJS.Timeout | undefined
  #end: (isWhole: boolean) => void = () => {}

  constructor(
    channel: Channel,
    count: number,
    isStale: (copy: DeadLetterCopy) => Promise<boolean>,
    quietMs: number,
  ) {
    this.#channel = channel
    this.#count = count
    this.#isStale = isStale
    this.#quietMs = quietMs
  }

  /** False: the consumer was cancelled, or the channel was lost. */
  async read(source: string): Promise<boolean> {
    const ended = new Promise<boolean>((resolve) => {
      this.#end = resolve
    })
    this.#channel.once('close', () => this.#fail())
    await this.#channel.prefetch(this.#count)
    await this.#channel.consume(source, (message) => {
      this.#judged = this.#judged.then(() => this.#onMessage(message)).catch(() => this.#fail())
    })
    // Every message restarts this timer.
    if (this.#isReading) this.#timer = setTimeout(() => this.#finishInTime(), this.#quietMs)
    const isWhole = await ended
    clearTimeout(this.#timer)
    return isWhole
  }

  async #onMessage(message: ConsumeMessage | null): Promise<void> {
    if (message === null) this.#fail()
    else if (this.#isReading) await this.#look(message)
    // Messages beyond the count, delivered in place of acknowledged ones, go back unread.
    else if (this.#isHeldAgain(message)) {
      this.#channel.ack(message)
      this.#end(true)
    }
  }

  async #look(message: ConsumeMessage): Promise<void> {
    this.#timer?.refresh()
    const isStale = await this.#isStale(factsOf(message))
    // The time was up meanwhile: the next sweep judges it.
    if (!this.#isReading) return
    if (isStale) {
      if (this.#held) this.#channel.ack(this.#held)
      this.#held = message
      this.removed += 1
    } else this.kept += 1
    if (this.removed + this.kept === this.#count) this.#finish()
  }

  #finishInTime(): void {
    try {
      this.#finish()
    } catch {
      this.#fail()
    }
  }

  /** The channel is closed (amqplib throws in `ack` and `nack` then), or the ledger cannot be read. */
  #fail(): void {
    this.#isReading = false
    this.#held = null
    this.#end(false)
  }

  #finish(): void {
    this.#isReading = false
    clearTimeout(this.#timer)
    if (!this.#held) {
      this.#end(true)
      return
    }
    this.#channel.nack(this.#held, false, true)
    this.#timer = setTimeout(() => {
      // The held message did not come back: another consumer may have received it.
      this.removed -= 1
      this.#end(true)
    }, FLUSH_MS)
  }

  /** Another copy with the same facts is as stale as this one. */
  #isHeldAgain(message: ConsumeMessage): boolean {
    if (!this.#held || !message.fields.redelivered) return false
    const [a, b] = [factsOf(this.#held), factsOf(message)]
    return a.id === b.id && a.generation === b.generation && a.attempt === b.attempt
  }
}
