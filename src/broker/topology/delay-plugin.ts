/** The exchange of the delay plugin, for `OJS_DELAY_MODE=plugin`. */
import type { Logger } from '../../logger.ts'
import { classify } from '../connection/channel-error.ts'
import { Connection } from '../connection/connection.ts'
import { SILENT_OBSERVER } from '../observer.ts'
import type { BrokerOptions } from '../options.ts'

/** The exchange type of the (archived) plugin rabbitmq_delayed_message_exchange; seed 002 §8.4. */
const TYPE = 'x-delayed-message'

type DelayPlugin =
  | { state: 'ready' }
  /** This broker lacks the plugin, or its `ojs.exchange.delayed` is of another type. */
  | { state: 'unusable'; reason: string }
  /** No broker answers, or it does not let us look. */
  | { state: 'unavailable'; reason: string }

interface DelayPluginOptions {
  amqpUrls: readonly string[]
  connectionName: string
  /** Name of the exchange in the broker. */
  exchange: string
  /** False: only look for the exchange. */
  mayDeclare: boolean
  logger: Logger
}

type DelaysOptions = Pick<BrokerOptions, 'amqpUrls' | 'declare' | 'delayMode'>

/** Ensures what mode `plugin` needs of the broker; in mode `ttl`, nothing. */
export class Delays {
  readonly #options: DelaysOptions
  readonly #exchange: string
  readonly #logger: Logger

  constructor(options: DelaysOptions, exchange: string, logger: Logger) {
    this.#options = options
    this.#exchange = exchange
    this.#logger = logger
  }

  /** Rejects when a broker answers that lacks the plugin which the operator has promised. */
  async require(): Promise<void> {
    const plugin = await this.#look()
    if (plugin.state !== 'unusable') return
    throw new Error(
      `OJS_DELAY_MODE=plugin, but '${this.#exchange}' cannot be used: ${plugin.reason}. ` +
        'Enable rabbitmq_delayed_message_exchange, or set OJS_DELAY_MODE=ttl.',
    )
  }

  /** To be called after each connect: this may be another broker, or one that was reset. False: unusable. */
  async prepare(): Promise<boolean> {
    const plugin = await this.#look()
    if (plugin.state === 'ready') return true
    const message = 'the delayed message exchange cannot be used'
    this.#logger.error({ exchange: this.#exchange, reason: plugin.reason }, message)
    return false
  }

  async #look(): Promise<DelayPlugin> {
    const { amqpUrls, declare: strategy, delayMode } = this.#options
    if (delayMode !== 'plugin') return { state: 'ready' }
    return declareDelayedExchange({
      amqpUrls,
      connectionName: 'ojs-rabbitmq delays',
      exchange: this.#exchange,
      mayDeclare: strategy !== 'never',
      logger: this.#logger,
    })
  }
}

/**
 * Declares `ojs.exchange.delayed` as the plugin's type, on a throw-away connection: RabbitMQ closes the whole
 * connection on which an exchange of an unknown type is declared. Never rejects.
 */
export async function declareDelayedExchange(options: DelayPluginOptions): Promise<DelayPlugin> {
  const { amqpUrls: urls, connectionName, logger } = options
  const connection = new Connection({
    name: 'declare',
    urls,
    connectionName,
    logger,
    random: Math.random,
    observer: SILENT_OBSERVER,
  })
  let lost: string | null = null
  connection.listen({
    down: (reason) => {
      lost ??= reason
    },
  })
  try {
    await connection.start()
    if (!connection.isUp) return { state: 'unavailable', reason: connection.downReason }
    return await declare(connection, options)
  } catch (error) {
    return verdictOn(error, lost)
  } finally {
    await connection.close()
  }
}

/** Like `declareDelayedExchange`, but creates nothing: declares the type only if the exchange exists. */
export async function lookForDelayedExchange(
  options: Omit<DelayPluginOptions, 'mayDeclare'>,
): Promise<DelayPlugin> {
  const found = await declareDelayedExchange({ ...options, mayDeclare: false })
  if (found.state !== 'ready') return found
  return declareDelayedExchange({ ...options, mayDeclare: true })
}

async function declare(connection: Connection, options: DelayPluginOptions): Promise<DelayPlugin> {
  const { exchange, mayDeclare } = options
  const channel = await connection.openChannel()
  if (mayDeclare) {
    const declared = { durable: true, arguments: { 'x-delayed-type': 'direct' } }
    await channel.assertExchange(exchange, TYPE, declared)
  } else await channel.checkExchange(exchange)
  return { state: 'ready' }
}

function verdictOn(error: unknown, lost: string | null): DelayPlugin {
  const failure = classify(error)
  // RabbitMQ 4 closes the channel for an unknown type, as for a differing exchange; 3 closed the connection.
  const text = lost ?? ('text' in failure ? failure.text : failure.kind)
  if (/COMMAND[_-]INVALID|unknown exchange type/i.test(text)) {
    return { state: 'unusable', reason: `RabbitMQ has no exchange type ${TYPE}` }
  }
  if (failure.kind === 'differs') {
    return { state: 'unusable', reason: `it exists and is not of type ${TYPE}: ${failure.text}` }
  }
  if (failure.kind === 'not-found') return { state: 'unusable', reason: 'it does not exist' }
  return { state: 'unavailable', reason: text }
}
