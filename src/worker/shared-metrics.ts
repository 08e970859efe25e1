import type { BrokerGauges, BrokerObserver } from '../broker/observer.ts'
import { amqpGauges, amqpMetrics, type MetricRegistry } from '../telemetry/amqp-metrics.ts'
import { BoundedLabels } from '../telemetry/bounded-labels.ts'

const LABELS = 200
/** Of a registry that was cleared the metrics are gone, and have to be made again. */
const ANY_METRIC = 'ojs_amqp_connections_active'

interface Share {
  readonly observer: BrokerObserver
  readonly sources: Set<() => BrokerGauges>
}

const shares = new WeakMap<MetricRegistry, Share>()

/**
 * What the AMQP metrics of a caller's registry hear. It takes each name once, and a program has a
 * worker and a producer, or a new worker after one that was stopped: they count together.
 * `leave`: `read` is not asked any more.
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
  amqpGauges(registry, labels, () => together([...sources].map((read) => read())))
  const share = { observer: amqpMetrics(registry, labels), sources }
  shares.set(registry, share)
  return share
}

function together(all: readonly BrokerGauges[]): BrokerGauges {
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
