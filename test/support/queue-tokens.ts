import { connect } from 'amqplib'

/**
 * The `message_id`s of all messages in a queue that nobody consumes; they are left there. Exact,
 * where the counts of the management API lag by seconds.
 */
export async function queueTokens(amqpUrl: string, queue: string): Promise<string[]> {
  const connection = await connect(amqpUrl)
  const channel = await connection.createChannel()
  const ids: string[] = []
  for (;;) {
    const message = await channel.get(queue)
    if (message === false) break
    ids.push(String(message.properties.messageId))
  }
  // Nothing was acknowledged: the broker puts everything back.
  await connection.close()
  return ids
}
