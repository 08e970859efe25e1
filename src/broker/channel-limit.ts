import type { Logger } from '../logger.ts'
import { isNoChannel } from './amqp-error.ts'
import type { BrokerWarning } from './broker.ts'
import type { ConnectionName } from './observer.ts'

/** Longer than the longest pause before who got no channel asks again: 60 s and a quarter. */
const TOLD_MS = 120_000
/** As RabbitMQ ends the connection of a user with `max-channels` (530). */
const USER_LIMIT = /channels opened for user/

/** Of those that lack channels now. */
export function channelWarnings(
  connections: readonly { readonly channelLimit: ChannelLimit }[],
): BrokerWarning[] {
  return connections.flatMap(({ channelLimit }) => channelLimit.warning ?? [])
}

/**
 * That a connection may have no more channels: agreed on when it was opened, or a limit of the user's,
 * for which RabbitMQ ends the connection. Who gets none goes without, and asks again; nothing says when
 * there are enough. So it is a warning until it has not happened for a while.
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

  /** A channel could not be opened; `channelMax`: as many may be open. */
  notOpened(error: unknown, channelMax: number): void {
    if (!isNoChannel(error)) return
    const help = 'raise channel_max of RabbitMQ, or channelMax in the AMQP URL'
    this.#tell(`No channels left to allocate (${channelMax})`, help)
  }

  /** True where the connection was ended for this. */
  ended(reason: string): boolean {
    if (!USER_LIMIT.test(reason)) return false
    this.#tell(reason, 'raise max-channels of the user (rabbitmqctl set_user_limits)')
    return true
  }

  #tell(reason: string, help: string): void {
    const isNews = this.warning?.details?.['reason'] !== reason
    this.#warning = {
      code: 'no_channels',
      message: `The ${this.#name} connection gets no more channels: ${help}. ${reason}`,
      details: { connection: this.#name, reason },
    }
    this.#until = this.#now() + TOLD_MS
    if (isNews) {
      this.#logger.warn({ ...this.#warning.details, code: 'no_channels' }, this.#warning.message)
    }
  }
}
