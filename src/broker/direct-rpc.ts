import type { Channel, ConsumeMessage, Message } from 'amqplib'
import { jsonOrNull } from '../job/json-value.ts'
import type { Logger } from '../logger.ts'
import { type Connection, closeChannel } from './connection.ts'
import { DIRECT_REPLY } from './control-message.ts'
import type { Outgoing } from './publish-lane.ts'

export type RpcReply =
  | { outcome: 'answered'; type: string; body: unknown }
  /** Nobody answered in time, or the connection is away. */
  | { outcome: 'silent' }
  /** There is no control queue to ask. */
  | { outcome: 'returned' }

/**
 * Questions over the control queues (seed 002 §5.8) by RabbitMQ's direct reply-to: no reply queue
 * has to be declared, and an answer that comes too late is dropped by the broker. It needs a
 * channel that publishes and consumes, on a connection that may publish.
 */
export class DirectRpc {
  readonly #connection: Connection
  readonly #logger: Logger
  /** What takes the answer, by correlation id. */
  readonly #questions = new Map<string, (reply: RpcReply) => void>()
  #channel: Promise<Channel> | null = null

  constructor(connection: Connection, logger: Logger) {
    this.#connection = connection
    this.#logger = logger
    connection.listen({ down: () => this.#forget() })
  }

  /** Never rejects; settles within `timeoutMs`. `message.id` is the correlation id. */
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

  async close(): Promise<void> {
    const channel = this.#channel
    this.#forget()
    if (channel !== null) await channel.then(closeChannel, () => {})
  }

  async #send(message: Outgoing): Promise<void> {
    try {
      const channel = await this.#open()
      if (!this.#questions.has(message.id)) return
      const { exchange, routingKey, content, options } = message
      const asking = { ...options, replyTo: DIRECT_REPLY, correlationId: message.id }
      channel.publish(exchange, routingKey, content, asking)
    } catch (error) {
      this.#logger.debug({ err: error, type: message.options.type }, 'question not sent')
      this.#answer(message.id, { outcome: 'silent' })
    }
  }

  #open(): Promise<Channel> {
    this.#channel ??= this.#openChannel().catch((error: unknown) => {
      this.#channel = null
      throw error
    })
    return this.#channel
  }

  async #openChannel(): Promise<Channel> {
    const channel = await this.#connection.openChannel()
    channel.on('close', () => this.#forget())
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

  /** An answer to what was asked on that channel can never come. */
  #forget(): void {
    this.#channel = null
    for (const answer of [...this.#questions.values()]) answer({ outcome: 'silent' })
  }
}
