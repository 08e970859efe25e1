/** Connections that get no more channels: the warning, and what it tells the operator. */
import type { Logger } from '../../logger.ts'
import type { BrokerWarning } from '../broker.ts'
import type { ConnectionName } from '../observer.ts'
import { isNoChannel } from './channel-error.ts'

/** Longer than the longest pause before a channel is requested again (60 s + 25 %). */
const TOLD_MS = 120_000
/** Text with which RabbitMQ ends the connection of a user with `max-channels` (530). */
const USER_LIMIT = /channels opened for user/

/** Warnings of the connections that lack channels now. */
export function channelWarnings(
  connections: readonly { readonly channelLimit: ChannelLimit }[],
): BrokerWarning[] {
  return connections.flatMap(({ channelLimit }) => channelLimit.warning ?? [])
}

/**
 * Tracks that a connection gets no more channels, because of the negotiated `channel_max` or of a limit of
 * the user, for which RabbitMQ ends the connection. Whatever needed the channel retries later, and nothing
 * tells when there are enough. So the warning stays until it has not happened for a while.
 */
export class ChannelLimit {
  readonly #name: ConnectionName
  readonly #logger: Logger
  readonly #now: () => number
  #until = Number.NEGATIVE_INFINITY
  #warning: BrokerWarning | null = null

  constructor(name: ConnectionName, logger: Logger, now: () => number = () => performance.now()) {
    this.#name = name
    this.#logger = logger
    this.#now = now
  }

  get warning(): BrokerWarning | null {
    return this.#now() < this.#until ? this.#warning : null
  }

  /** A channel could not be opened. `channelMax`: how many may be open. */
  notOpened(error: unknown, channelMax: number): void {
    if (!isNoChannel(error)) return
    const help = 'raise channel_max of RabbitMQ, or channelMax in the AMQP URL'
    this.#tell(`No channels left to allocate (${channelMax})`, help)
  }

  /** True when the connection was ended for this reason. */
  ended(reason: string): boolean {
    if (!USER_LIMIT.test(reason)) return false
    this.#tell(reason, 'raise max-channels of the user (rabbitmqctl set_user_limits)')
    return true
  }

  #tell(reason: string, help: string): void {
    const isNews = this.warning?.details?.['reason'] !== reason
    this.#warning = {
      code: 'no_channels',
      message: `The ${this.#name} connection cannot open more channels (${reason}): ${help}.`,
      details: { connection: this.#name, reason },
    }
    this.#until = this.#now() + TOLD_MS
    if (isNews) {
      this.#logger.warn({ ...this.#warning.details, code: 'no_channels' }, this.#warning.message)
    }
  }
}
