/** 503 before anything is stored, when RabbitMQ cannot take or deliver messages now. */
import { brokerRefusal } from '../broker/broker-errors.ts'
import type { Deps } from './deps.ts'

/**
 * Throws 503 when nothing can be published now; to be called before anything is stored (docs/architecture.md
 * §2).
 */
export function requirePublishing(deps: Deps): void {
  const status = deps.broker.status()
  if (status.state !== 'up') throw brokerRefusal(status.state)
}

/** Throws 503 when nothing can be consumed now. An alarm is no reason: RabbitMQ blocks only publishers. */
export function requireConsuming(deps: Deps): void {
  const { state } = deps.broker.status()
  if (state === 'down' || state === 'foreign') throw brokerRefusal(state)
}
