/** What the broker tells telemetry: events as they happen, gauges on request. */

/**
 * `reply`: only for answers to direct reply addresses; opened for the first of them. `events`: only with
 * `OJS_EVENTS_EXCHANGE`.
 */
export type ConnectionName = 'publish' | 'consume' | 'declare' | 'reply' | 'events'

/**
 * What the broker layer reports to telemetry, as it happens (seed 002 §12.1). Calls are synchronous and on
 * the hot path: a listener counts and returns. It must not throw.
 */
export interface BrokerObserver {
  /** Written to the socket; not yet confirmed. */
  published(queue: string): void
  confirmed(queue: string, latencySeconds: number): void
  /** `basic.nack` from RabbitMQ: the queue is full, or was deleted meanwhile. */
  publishNacked(queue: string): void
  /** No confirm within the publish timeout, or the channel was lost first. */
  publishUnknown(queue: string): void
  returned(queue: string): void
  consumed(queue: string, redelivered: boolean): void
  acked(queue: string): void
  /** `basic.nack requeue=false`. */
  deadLettered(queue: string): void
  /** `basic.nack requeue=true` of deliveries that nobody fetched. */
  givenBack(queue: string, count: number): void
  /** Unsettled deliveries whose channel is gone; RabbitMQ redelivers them. */
  lost(queue: string, count: number): void
  consumerCancelled(queue: string): void
  /** An attempt to reconnect follows; `attempt` counts from 1. */
  reconnecting(connection: ConnectionName, attempt: number): void
  /** The event that seed 002 §11.3 asks for; no metric counts it. */
  reconnected(connection: ConnectionName): void
  /** RabbitMQ closed a channel; `code` is AMQP's, e.g. 404. */
  channelError(connection: ConnectionName, code: number): void
  /** An entity exists with other arguments than ours (406). */
  declareConflict(entity: string): void
}

/** What happens to events on their way to `ojs.exchange.events`. */
export interface EventExchangeObserver {
  published(): void
  /** They were forgotten before they could be published, or a bound queue refused one. */
  dropped(count: number): void
}

/** Gauges, computed when they are requested. */
export interface BrokerGauges {
  connectionsActive: number
  channelsActive: number
  /** True while the broker has blocked publishers (memory or disk alarm). */
  blocked: boolean
  confirmsPending: number
  /** One entry per consumer channel. */
  consumers: readonly ConsumerGauge[]
  /** One entry per queue that was fetched from. */
  queues: readonly QueueGauge[]
}

interface ConsumerGauge {
  queue: string
  /** Stable as long as the consumer channel lives; unique in this process. */
  consumer: string
  unacked: number
}

interface QueueGauge {
  queue: string
  /** Deliveries received here and not assigned to a worker yet. */
  buffered: number
  waiters: number
  /** Deliveries in use / (consumer channels × prefetch), 0…1; 0 without a consumer channel. */
  utilization: number
}

export const SILENT_OBSERVER: BrokerObserver = {
  published: ignore,
  confirmed: ignore,
  publishNacked: ignore,
  publishUnknown: ignore,
  returned: ignore,
  consumed: ignore,
  acked: ignore,
  deadLettered: ignore,
  givenBack: ignore,
  lost: ignore,
  consumerCancelled: ignore,
  reconnecting: ignore,
  reconnected: ignore,
  channelError: ignore,
  declareConflict: ignore,
}

function ignore(): void {}
