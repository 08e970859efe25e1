import { connect } from 'amqplib'

/**
 * Returns the `message_id`s of all messages in a queue without consumers, and leaves the messages there.
 * Exact, while the counts of the management API lag by seconds.
 */
export async function queueMessages(amqpUrl: string, queue: string): Promise<string[]> {
  const connection = await connect(amqpUrl)
  const channel = await connection.createChannel()
  const ids: string[] = []
  for (;;) {
    const message = await channel.get(queue)
    if (message === false) break
    ids.push(String(message.properties.messageId))
  }
  // Nothing was acknowledged, so RabbitMQ puts everything back.
  await connection.close()
  return ids
}
