/** An exclusive queue of a worker's connection, for the gateways' broadcasts. */
import type { ConsumeMessage } from 'amqplib'
import { jsonOrNull } from '../../job/values/json-value.ts'
import { closeChannel } from '../connection/channel-error.ts'
import type { Connection } from '../connection/connection.ts'

export interface BroadcastMessage {
  type: string
  /** Null: not JSON. */
  body: unknown
}

/**
 * Consumes an exclusive queue of this connection, bound to the given keys; it vanishes with the connection.
 * Resolves when no later publish can be missed; rejects when the connection or the exchange is missing.
 * `onClosed`: nothing more will be received.
 */
export async function listenToBroadcasts(
  connection: Connection,
  source: { exchange: string; keys: readonly string[] },
  listener: { onMessage(message: BroadcastMessage): void; onClosed(): void },
): Promise<{ close(): Promise<void> }> {
  const channel = await connection.openChannel()
  let isListening = false
  channel.on('close', () => {
    if (isListening) listener.onClosed()
  })
  const { queue } = await channel.assertQueue('', { exclusive: true, autoDelete: true })
  for (const key of source.keys) await channel.bindQueue(queue, source.exchange, key)
  const onMessage = (message: ConsumeMessage | null) => {
    // Null: the queue was deleted.
    if (message === null) void closeChannel(channel)
    else {
      const { content, properties } = message
      listener.onMessage({ type: String(properties.type), body: jsonOrNull(content) })
    }
  }
  await channel.consume(queue, onMessage, { noAck: true, exclusive: true })
  isListening = true
  return {
    close: () => {
      isListening = false
      return closeChannel(channel)
    },
  }
}
