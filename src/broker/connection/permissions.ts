/** Missing rights to publish or consume: logged once, a warning until they are granted. */
import type { Logger } from '../../logger.ts'
import type { BrokerWarning } from '../broker.ts'
import type { Connection } from './connection.ts'

type Use = 'publish' | 'consume'

const ACTION = { publish: 'publish to exchange', consume: 'consume queue' } as const

/** Matches `ACCESS_REFUSED - access to exchange 'x' in vhost 'v' refused for user 'u'`, also with a topic. */
const EXCHANGE = /\bexchange '(.*?)' in vhost /s

/**
 * Records missing rights to publish or consume, found when they are used (`EntityChecker` has those to
 * declare). Each is logged once, and is a warning until the right is granted or the connection is replaced.
 */
export class Denials {
  readonly #logger: Logger
  readonly #warnings = {
    publish: new Map<string, BrokerWarning>(),
    consume: new Map<string, BrokerWarning>(),
  }

  constructor(logger: Logger, connections: Readonly<Record<Use, Pick<Connection, 'listen'>>>) {
    this.#logger = logger
    for (const use of ['publish', 'consume'] as const) {
      connections[use].listen({ down: () => this.#warnings[use].clear() })
    }
  }

  warnings(): BrokerWarning[] {
    return [...this.#warnings.publish.values(), ...this.#warnings.consume.values()]
  }

  /** RabbitMQ has closed a publishing channel with this text, which names the exchange. */
  mayNotPublish(text: string): void {
    this.#deny('publish', EXCHANGE.exec(text)?.[1] ?? '', text)
  }

  /** Called after every answered publish. */
  mayPublish(exchange: string): void {
    if (this.#warnings.publish.size === 0) return
    this.#warnings.publish.delete(named(exchange))
  }

  isDenied(exchange: string): boolean {
    return this.#warnings.publish.has(named(exchange))
  }

  mayNotConsume(queue: string, text: string): void {
    this.#deny('consume', queue, text)
  }

  mayConsume(queue: string): void {
    this.#warnings.consume.delete(queue)
  }

  #deny(use: Use, entity: string, reason: string): void {
    const action = ACTION[use]
    const isNews = !this.#warnings[use].has(entity)
    const warning = {
      code: 'access_refused',
      message: `RabbitMQ refuses to ${action} '${entity}': ${reason}`,
      details: { entity, action, reason },
    }
    this.#warnings[use].set(entity, warning)
    if (isNews) this.#logger.warn({ ...warning.details, code: warning.code }, warning.message)
  }
}

/** RabbitMQ's texts call the default exchange `amq.default`. */
function named(exchange: string): string {
  return exchange === '' ? 'amq.default' : exchange
}
