import type { Logger } from '../logger.ts'
import { classify } from './amqp-error.ts'
import { Connection } from './connection.ts'
import { SILENT_OBSERVER } from './observer.ts'
import type { BrokerOptions } from './options.ts'

/** Of RabbitMQ's (archived) plugin rabbitmq_delayed_message_exchange; seed 002 §8.4. */
const TYPE = 'x-delayed-message'

type DelayPlugin =
  | { state: 'ready' }
  /** Not on this broker, or `ojs.exchange.delayed` is something else there. */
  | { state: 'unusable'; reason: string }
  /** No broker answers, or it does not let us look. */
  | { state: 'unavailable'; reason: string }

interface DelayPluginOptions {
  amqpUrls: readonly string[]
  connectionName: string
  /** Name of the exchange in the broker. */
  exchange: string
  /** False: it is only looked for. */
  mayDeclare: boolean
  logger: Logger
}

type DelaysOptions = Pick<BrokerOptions, 'amqpUrls' | 'connectionName' | 'declare' | 'delayMode'>

/** What mode `plugin` needs of the broker; in mode `ttl`, nothing. */
export class Delays {
  readonly #options: DelaysOptions
  readonly #exchange: string
  readonly #logger: Logger

  constructor(options: DelaysOptions, exchange: string, logger: Logger) {
    this.#options = options
    this.#exchange = exchange
    this.#logger = logger
  }

  /** Rejects where a broker answers and has not what the operator says that it has. */
  async require(): Promise<void> {
    const plugin = await this.#look()
    if (plugin.state !== 'unusable') return
    throw new Error(
      `OJS_DELAY_MODE=plugin, but '${this.#exchange}' cannot be used: ${plugin.reason}. ` +
        'Enable rabbitmq_delayed_message_exchange, or set OJS_DELAY_MODE=ttl.',
    )
  }

  /** After each connect: this may be another broker, or one that was reset. False: not usable. */
  async prepare(): Promise<boolean> {
    const plugin = await this.#look()
    if (plugin.state === 'ready') return true
    const message = 'the delayed message exchange cannot be used'
    this.#logger.error({ exchange: this.#exchange, reason: plugin.reason }, message)
    return false
  }

  async #look(): Promise<DelayPlugin> {
    const {
      amqpUrls,
      connectionName = 'ojs-rabbitmq',
      declare: strategy,
      delayMode,
    } = this.#options
    if (delayMode !== 'plugin') return { state: 'ready' }
    return declareDelayedExchange({
      amqpUrls,
      connectionName: `${connectionName} delays`,
      exchange: this.#exchange,
      mayDeclare: strategy !== 'never',
      logger: this.#logger,
    })
  }
}

/**
 * Declares `ojs.exchange.delayed` as the plugin's type. On a throw-away connection: RabbitMQ closes
 * the whole connection of who declares an exchange of a type that it does not know. Never rejects.
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

/** As above, but nothing is declared: only to an exchange that is there its type is told again. */
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
  // RabbitMQ 4 ends the channel for it, as for an exchange that differs; 3 ended the connection.
  const text = lost ?? ('text' in failure ? failure.text : failure.kind)
  if (/COMMAND[_-]INVALID|unknown exchange type/i.test(text)) {
    return { state: 'unusable', reason: `RabbitMQ has no exchange type ${TYPE}` }
  }
  if (failure.kind === 'differs') {
    return { state: 'unusable', reason: `it exists and is no ${TYPE}: ${failure.text}` }
  }
  if (failure.kind === 'not-found') return { state: 'unusable', reason: 'it does not exist' }
  return { state: 'unavailable', reason: text }
}
