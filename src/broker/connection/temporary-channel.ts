/** Channels for declares and look-ups, which a refusal closes. */
import type { Channel } from 'amqplib'
import { closeChannel } from './channel-error.ts'
import type { Connection } from './connection.ts'
import { isInTime } from './reconnect.ts'

/** Callers only wait for the close so that not too many channels are open: after this long they go on. */
const CLOSE_MS = 10_000

/**
 * A throw-away channel: every failed declare closes its channel, so the next call opens a new one (seed 002
 * §10.1: "MUST open a new channel after a channel-level error").
 */
export class ScratchChannel {
  readonly #connection: Connection
  #channel: Channel | null = null

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async run<T>(call: (channel: Channel) => Promise<T>): Promise<T> {
    this.#channel ??= await this.#connection.openChannel()
    try {
      return await call(this.#channel)
    } catch (error) {
      this.#channel = null
      throw error
    }
  }

  async close(withinMs = CLOSE_MS): Promise<void> {
    const channel = this.#channel
    this.#channel = null
    if (channel) await isInTime(closeChannel(channel), withinMs)
  }
}

/** Opens a scratch channel for the duration of `work`. */
export async function withScratchChannel<T>(
  connection: Connection,
  work: (scratch: ScratchChannel) => Promise<T>,
): Promise<T> {
  const scratch = new ScratchChannel(connection)
  try {
    return await work(scratch)
  } finally {
    await scratch.close()
  }
}
