/** AMQP metrics that workers and producers of one registry share. */
import type { BrokerGauges, BrokerObserver } from '../broker/observer.ts'
import { amqpGauges, amqpMetrics } from '../telemetry/amqp-metrics.ts'
import { BoundedLabels } from '../telemetry/bounded-labels.ts'
import type { MetricRegistry } from '../telemetry/gauges.ts'

const LABELS = 200
/** Used to see whether a registry was cleared: its metrics are gone then, and must be made again. */
const ANY_METRIC = 'ojs_amqp_connections_active'

interface Share {
  readonly observer: BrokerObserver
  readonly sources: Set<() => BrokerGauges>
}

const shares = new WeakMap<MetricRegistry, Share>()

/**
 * Joins the AMQP metrics of a registry. A registry accepts each metric name only once, but a program may have
 * a worker and a producer, or a new worker after a stopped one: they share the metrics. `leave`: `read` is
 * not called any more.
 */
export function joinMetrics(
  registry: MetricRegistry,
  read: () => BrokerGauges,
): { observer: BrokerObserver; leave(): void } {
  const known = shares.get(registry)
  const isThere = known !== undefined && registry.getSingleMetric(ANY_METRIC) !== undefined
  const { observer, sources } = isThere ? known : newShare(registry)
  sources.add(read)
  return { observer, leave: () => void sources.delete(read) }
}

function newShare(registry: MetricRegistry): Share {
  const labels = new BoundedLabels(LABELS)
  const sources: Share['sources'] = new Set()
  amqpGauges(registry, labels, () => summedUp([...sources].map((read) => read())))
  const share = { observer: amqpMetrics(registry, labels), sources }
  shares.set(registry, share)
  return share
}

function summedUp(all: readonly BrokerGauges[]): BrokerGauges {
  const total = (of: (one: BrokerGauges) => number) => all.reduce((sum, one) => sum + of(one), 0)
  return {
    connectionsActive: total((one) => one.connectionsActive),
    channelsActive: total((one) => one.channelsActive),
    blocked: all.some((one) => one.blocked),
    confirmsPending: total((one) => one.confirmsPending),
    consumers: all.flatMap((one) => one.consumers),
    queues: all.flatMap((one) => one.queues),
  }
}
