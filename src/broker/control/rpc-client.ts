/** A native worker's questions to a gateway, over RabbitMQ's direct reply-to. */
import type { Channel, ConsumeMessage, Message } from 'amqplib'
import { jsonOrNull } from '../../job/values/json-value.ts'
import type { Logger } from '../../logger.ts'
import { closeChannel } from '../connection/channel-error.ts'
import type { Connection } from '../connection/connection.ts'
import { DIRECT_REPLY } from '../messages/control-message.ts'
import type { Outgoing } from '../messages/outgoing-message.ts'

export type RpcReply =
  | { outcome: 'answered'; type: string; body: unknown }
  /** Nobody answered in time, or the connection is down. */
  | { outcome: 'silent' }
  /** The control queue to be asked does not exist. */
  | { outcome: 'returned' }

/**
 * Asks questions over the control queues (seed 002 §5.8) with RabbitMQ's direct reply-to: no reply queue
 * needs declaring, and RabbitMQ drops an answer that comes too late. Needs a channel that both publishes and
 * consumes, on a connection that may publish.
 */
export class DirectRpc {
  readonly #connection: Connection
  readonly #logger: Logger
  #current: RpcChannel | null = null

  constructor(connection: Connection, logger: Logger) {
    this.#connection = connection
    this.#logger = logger
    connection.listen({ down: () => this.#current?.end() })
  }

  /** Never rejects; settles within `timeoutMs`. `message.id` is the correlation id. */
  ask(message: Outgoing, timeoutMs: number): Promise<RpcReply> {
    if (this.#current === null || this.#current.isEnded) {
      this.#current = new RpcChannel(this.#connection, this.#logger)
    }
    return this.#current.ask(message, timeoutMs)
  }

  async close(): Promise<void> {
    await this.#current?.close()
  }
}

/** One channel and the questions asked on it: their answers come on no other. */
class RpcChannel {
  readonly #logger: Logger
  /** What receives the answer, by correlation id. */
  readonly #questions = new Map<string, (reply: RpcReply) => void>()
  readonly #channel: Promise<Channel>
  #isEnded = false

  constructor(connection: Connection, logger: Logger) {
    this.#logger = logger
    this.#channel = this.#open(connection)
    this.#channel.catch(() => this.end())
  }

  /** True when nothing can be asked on this channel any more. */
  get isEnded(): boolean {
    return this.#isEnded
  }

  ask(message: Outgoing, timeoutMs: number): Promise<RpcReply> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => answer({ outcome: 'silent' }), timeoutMs)
      const answer = (reply: RpcReply) => {
        clearTimeout(timer)
        this.#questions.delete(message.id)
        resolve(reply)
      }
      this.#questions.set(message.id, answer)
      void this.#send(message)
    })
  }

  /** Ends all questions as `silent`: their answers can never come. */
  end(): void {
    this.#isEnded = true
    for (const answer of [...this.#questions.values()]) answer({ outcome: 'silent' })
  }

  async close(): Promise<void> {
    this.end()
    await this.#channel.then(closeChannel, () => {})
  }

  async #send(message: Outgoing): Promise<void> {
    try {
      const channel = await this.#channel
      if (!this.#questions.has(message.id)) return
      const { exchange, routingKey, content, options } = message
      const asking = { ...options, replyTo: DIRECT_REPLY, correlationId: message.id }
      channel.publish(exchange, routingKey, content, asking)
    } catch (error) {
      this.#logger.debug({ err: error, type: message.options.type }, 'control message not sent')
      this.#answer(message.id, { outcome: 'silent' })
    }
  }

  async #open(connection: Connection): Promise<Channel> {
    const channel = await connection.openChannel()
    channel.on('close', () => this.end())
    channel.on('return', (message: Message) => {
      this.#answer(message.properties.correlationId, { outcome: 'returned' })
    })
    const onReply = (message: ConsumeMessage | null) => {
      if (message === null) return
      const { correlationId, type } = message.properties
      const body = jsonOrNull(message.content)
      this.#answer(correlationId, { outcome: 'answered', type: String(type), body })
    }
    await channel.consume(DIRECT_REPLY, onReply, { noAck: true })
    return channel
  }

  #answer(id: unknown, reply: RpcReply): void {
    this.#questions.get(String(id))?.(reply)
  }
}
