import type { Channel } from 'amqplib'

/**
 * Resolves when the channel is closed, by the broker's answer or with its connection. amqplib's own promise
 * waits for the answer only, so it may never settle. Never rejects.
 */
export function closeChannel(channel: Channel): Promise<void> {
  return new Promise((resolve) => {
    channel.once('close', () => resolve())
    // Rejects when the channel is closed already.
    channel.close().catch(() => resolve())
  })
}
