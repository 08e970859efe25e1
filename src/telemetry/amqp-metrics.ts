/** Metrics of the broker layer: publishes, confirms, deliveries, connections (seed 002 §12.1). */
import { Counter, Gauge, Histogram } from 'prom-client'
import type { BrokerGauges, BrokerObserver, ConnectionName } from '../broker/observer.ts'
import type { BoundedLabels } from './bounded-labels.ts'
import { gauge, gaugeByQueue, type MetricRegistry, sum } from './gauges.ts'
import { oncePerTurn } from './once-per-turn.ts'

const CONNECTIONS: readonly ConnectionName[] = ['publish', 'consume', 'declare', 'reply', 'events']

/** Publisher confirms take about 0.3 ms on a classic queue and 5 ms with an fsync. */
const CONFIRM_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 10]

/**
 * The counters and the histogram of seed 002 §12.1 under exactly their names, and further counters of the
 * broker layer.
 */
export function amqpMetrics(registry: MetricRegistry, queues: BoundedLabels): BrokerObserver {
  const registers = [registry]
  const byQueue = (name: string, help: string) => queueCounter(registry, queues, name, help)
  const byConnection = (name: string, help: string, ...more: string[]) =>
    new Counter({ name, help, labelNames: ['connection', ...more], registers })
  const total = (name: string, help: string) => new Counter({ name, help, registers })

  const published = byQueue('ojs_amqp_messages_published_total', 'Messages published')
  const consumed = byQueue('ojs_amqp_messages_consumed_total', 'Messages consumed')
  const acked = byQueue('ojs_amqp_messages_acked_total', 'Messages acknowledged')
  const nacked = byQueue('ojs_amqp_messages_nacked_total', 'Messages negatively acknowledged')
  const returned = total('ojs_amqp_messages_returned_total', 'Messages returned by Basic.Return')
  const reconnections = byConnection('ojs_amqp_reconnections_total', 'Reconnection attempts')
  const confirmLatency = new Histogram({
    name: 'ojs_amqp_publish_confirm_latency_seconds',
    help: 'From a publish to its confirm',
    buckets: CONFIRM_BUCKETS,
    registers,
  })

  const refused = byQueue('ojs_amqp_publish_nacked_total', 'Publishes that a full queue refused')
  const unconfirmed = byQueue(
    'ojs_amqp_confirm_timeouts_total',
    'Publishes without a confirm in time, or whose channel was lost first: outcome unknown',
  )
  const redelivered = byQueue('ojs_amqp_messages_redelivered_total', 'Messages redelivered')
  const deadLettered = byQueue('ojs_amqp_messages_dead_lettered_total', 'Messages dead-lettered')
  const lost = byQueue(
    'ojs_amqp_deliveries_lost_total',
    'Unsettled deliveries of a lost channel; RabbitMQ delivers them again',
  )
  const cancelled = byQueue('ojs_amqp_consumer_cancels_total', 'Consumers that RabbitMQ ended')
  const channelErrors = byConnection('ojs_amqp_channel_errors_total', 'Channels closed', 'code')
  const conflicts = total(
    'ojs_amqp_declare_conflicts_total',
    'Entities that exist with other arguments',
  )
  for (const connection of CONNECTIONS) reconnections.inc({ connection }, 0)

  return {
    published: (queue) => published(queue, 1),
    confirmed: (_queue, latencySeconds) => confirmLatency.observe(latencySeconds),
    publishNacked: (queue) => refused(queue, 1),
    publishUnknown: (queue) => unconfirmed(queue, 1),
    returned: () => returned.inc(),
    consumed(queue, isRedelivered) {
      consumed(queue, 1)
      if (isRedelivered) redelivered(queue, 1)
    },
    acked: (queue) => acked(queue, 1),
    deadLettered(queue) {
      nacked(queue, 1)
      deadLettered(queue, 1)
    },
    givenBack: (queue, count) => nacked(queue, count),
    lost: (queue, count) => lost(queue, count),
    consumerCancelled: (queue) => cancelled(queue, 1),
    reconnecting: (connection) => reconnections.inc({ connection }),
    reconnected() {},
    channelError: (connection, code) => channelErrors.inc({ connection, code }),
    declareConflict: () => conflicts.inc(),
  }
}

/** A counter by queue that keeps its children: a hit is one look-up and allocates nothing. */
function queueCounter(
  registry: MetricRegistry,
  queues: BoundedLabels,
  name: string,
  help: string,
): (queue: string, by: number) => void {
  const counter = new Counter({ name, help, labelNames: ['queue'], registers: [registry] })
  const children = new Map<string, Counter.Internal>()
  return (queue, by) => {
    let child = children.get(queue)
    if (child === undefined) {
      const label = queues.of(queue)
      child = children.get(label) ?? counter.labels(label)
      children.set(label, child)
    }
    child.inc(by)
  }
}

/** The gauges of seed 002 §12.1 and further ones of the broker layer, read at each scrape. */
export function amqpGauges(
  registry: MetricRegistry,
  queues: BoundedLabels,
  broker: () => BrokerGauges,
): void {
  const now = oncePerTurn(broker)
  gauge(
    registry,
    'ojs_amqp_connections_active',
    'Open connections to RabbitMQ',
    () => now().connectionsActive,
  )
  gauge(registry, 'ojs_amqp_channels_active', 'Open channels', () => now().channelsActive)
  gauge(registry, 'ojs_amqp_blocked', '1 while RabbitMQ blocks publishers', () =>
    Number(now().blocked),
  )
  gauge(
    registry,
    'ojs_amqp_confirms_pending',
    'Publishes without a confirm yet',
    () => now().confirmsPending,
  )
  unacked(registry, queues, now)
  const ofEach = (read: (queue: BrokerGauges['queues'][number]) => number) => () =>
    now().queues.map((each) => [each.queue, read(each)] as const)
  gaugeByQueue(registry, queues, {
    name: 'ojs_amqp_consumer_utilization',
    help: 'Deliveries in use / prefetch, 0-1',
    read: ofEach(({ utilization }) => utilization),
    join: Math.max,
  })
  gaugeByQueue(registry, queues, {
    name: 'ojs_amqp_buffered',
    help: 'Messages delivered and not yet assigned to a worker',
    read: ofEach(({ buffered }) => buffered),
    join: sum,
  })
  gaugeByQueue(registry, queues, {
    name: 'ojs_fetch_waiters',
    help: 'FETCHes that wait for a job',
    read: ofEach(({ waiters }) => waiters),
    join: sum,
  })
}

function unacked(registry: MetricRegistry, queues: BoundedLabels, now: () => BrokerGauges): void {
  new Gauge({
    name: 'ojs_amqp_messages_unacked',
    help: 'Deliveries not settled yet',
    labelNames: ['queue', 'consumer'],
    registers: [registry],
    collect() {
      this.reset()
      const counts = new Map<string, number>()
      for (const { queue, unacked } of now().consumers) {
        const label = queues.of(queue)
        // Labelled by position, not by consumer tag: one series for each consumer that a queue ever had would
        // have no end.
        const place = (counts.get(queue) ?? 0) + 1
        counts.set(queue, place)
        this.inc({ queue: label, consumer: `${label}-${place}` }, unacked)
      }
    },
  })
}
