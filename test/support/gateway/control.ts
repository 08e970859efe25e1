import amqp from 'amqplib'
import { v7 } from 'uuid'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

/** A message that a worker received on its own queue. */
interface Heard {
  type: string
  key: string
  body: Json
}

/** A client of the control plane in plain amqplib, as docs/reference/control-protocol.md says how to write one. */
export interface ControlClient {
  readonly channel: amqp.ConfirmChannel
  /** Publishes a control message: mandatory, persistent, confirmed. Throws when it is returned. */
  say(queue: string, type: string, body: unknown, options?: amqp.Options.Publish): Promise<void>
  /** Asks with an exclusive queue; `direct`: with `amq.rabbitmq.reply-to`. Returns the answer's body. */
  ask(queue: string, type: string, body: unknown, how?: 'exclusive' | 'direct'): Promise<Json>
  /** Binds an exclusive queue to the broadcasts for these queues. */
  listen(queues: readonly string[]): Promise<Heard[]>
  close(): Promise<void>
}

/** Connects; `prefix` is that of the gateway (`OJS_PREFIX`). */
export async function connectControl(amqpUrl: string, prefix = ''): Promise<ControlClient> {
  const named = (name: string) => (prefix === '' ? name : `${prefix}.${name}`)
  const exchange = named('ojs.exchange.direct')
  const connection = await amqp.connect(amqpUrl)
  connection.on('error', () => {})
  const channel = await connection.createConfirmChannel()
  const returned = new Set<string>()
  channel.on('return', ({ properties }) => returned.add(properties.messageId))

  const say = async (
    queue: string,
    type: string,
    body: unknown,
    options: amqp.Options.Publish = {},
  ) => {
    const content = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body))
    const key = named(`ojs.queue.control.${queue}`)
    const messageId = v7()
    const contentType = 'application/openjobspec+json'
    const sent = { type, messageId, contentType, persistent: true, mandatory: true, ...options }
    await new Promise<void>((resolve, reject) =>
      channel.publish(exchange, key, content, sent, (error) => (error ? reject(error) : resolve())),
    )
    if (returned.has(messageId)) throw new Error(`${key} is not there`)
  }

  return {
    channel,
    say,
    ask: async (queue, type, body, how = 'exclusive') => {
      const asking = await connection.createChannel()
      const correlationId = v7()
      const { queue: own } =
        how === 'direct'
          ? { queue: 'amq.rabbitmq.reply-to' }
          : await asking.assertQueue('', { exclusive: true, autoDelete: true })
      const answer = new Promise<Json>((resolve) => {
        const onMessage = (message: amqp.ConsumeMessage | null) => {
          if (message?.properties.correlationId !== correlationId) return
          if (message.properties.type !== type) throw new Error('an answer of another type')
          resolve(JSON.parse(message.content.toString()))
        }
        void asking.consume(own, onMessage, { noAck: true })
      })
      const options = { type, correlationId, replyTo: own, mandatory: true, persistent: true }
      const key = named(`ojs.queue.control.${queue}`)
      const content = Buffer.from(JSON.stringify(body))
      // A direct reply address belongs to the channel that consumes it.
      const publish = () => asking.publish(exchange, key, content, options)
      publish()
      // The gateway drops a direct answer when its connection for these takes over a second to open.
      const again = how === 'direct' ? setInterval(publish, 2_000) : undefined
      const body_ = await answer
      clearInterval(again)
      await asking.close()
      return body_
    },
    listen: async (queues) => {
      const { queue } = await channel.assertQueue('', { exclusive: true, autoDelete: true })
      for (const name of queues) {
        await channel.bindQueue(queue, exchange, `ojs.control.workers.${name}`)
      }
      const heard: Heard[] = []
      const onMessage = (message: amqp.ConsumeMessage | null) => {
        if (message === null) return
        const { fields, properties, content } = message
        const body = JSON.parse(content.toString())
        heard.push({ type: properties.type, key: fields.routingKey, body })
      }
      await channel.consume(queue, onMessage, { noAck: true })
      return heard
    },
    close: async () => {
      await connection.close()
    },
  }
}
