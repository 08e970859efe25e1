/** The metric registry: feeds counters, reads gauges, writes the Prometheus text. */
import { Histogram, Registry } from 'prom-client'
import type { BrokerGauges, BrokerObserver, EventExchangeObserver } from '../broker/observer.ts'
import { amqpGauges, amqpMetrics } from './amqp-metrics.ts'
import { BoundedLabels, SeriesByPair } from './bounded-labels.ts'
import { type ControlObserver, controlMetrics } from './control-metrics.ts'
import { eventExchangeGauge, eventExchangeMetrics } from './event-exchange-metrics.ts'
import type { JobEvent } from './events.ts'
import type { Exposition, HttpObserver } from './exposition.ts'
import { type GatewayState, gatewayGauges, type LedgerState } from './gateway-gauges.ts'
import { type JobSources, jobGauges } from './job-gauges.ts'
import { jobMetrics } from './job-metrics.ts'
import { pageOf } from './process-metrics.ts'

/** All metrics, in a registry of their own: two gateways may share a process. */
export interface Metrics {
  /** A listener for `createJobEvents`. */
  onJobEvent(event: JobEvent): void
  /** For the broker layer. */
  readonly observer: BrokerObserver
  /** For the exchange of events. */
  readonly eventExchange: EventExchangeObserver
  /** For the AMQP door. */
  readonly control: ControlObserver
  /** For the HTTP door. The sources are only read at scrapes. Call it once. */
  exposition(sources: MetricSources): Exposition
}

export interface MetricSources extends JobSources {
  /** Walks over all deliveries in hand, so it is called once for all gauges of a scrape. */
  broker(): BrokerGauges
  /** Events that `ojs.exchange.events` has not confirmed yet. */
  eventsPending(): number
  readonly gateway: GatewayState
  readonly ledger: JobSources['ledger'] & LedgerState
}

/** Clients choose queue names and job types: the first 200 of each keep their name. */
const MAX_QUEUES = 200
const MAX_TYPES = 200

/**
 * One registry with counters that are fed from now on, and gauges that read their sources at each scrape.
 * Labels are bounded, because clients choose the names.
 */
export function createMetrics(): Metrics {
  const registry = new Registry()
  const queues = new BoundedLabels(MAX_QUEUES)
  const types = new BoundedLabels(MAX_TYPES)
  return {
    onJobEvent: jobMetrics(registry, queues, types),
    observer: amqpMetrics(registry, queues),
    eventExchange: eventExchangeMetrics(registry),
    control: controlMetrics(registry),
    exposition(sources) {
      gatewayGauges(registry, sources.gateway, sources.ledger)
      jobGauges(registry, queues, sources)
      amqpGauges(registry, queues, () => sources.broker())
      eventExchangeGauge(registry, () => sources.eventsPending())
      const http = httpMetrics(registry)
      return { http, ...pageOf(registry) }
    },
  }
}

const HTTP_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
/** Methods with their own label. Clients may try the other thirty that Node.js accepts, on every route. */
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS'])
const STATUS_CLASSES = ['gone', '1xx', '2xx', '3xx', '4xx', '5xx'] as const

/** HTTP requests by route template, method and class of status; `gone`: the client left before the answer. */
function httpMetrics(registry: Registry): HttpObserver {
  const histogram = new Histogram({
    name: 'ojs_http_request_duration_seconds',
    help: 'From the request line to the last byte of the answer',
    labelNames: ['route', 'method', 'status'],
    buckets: HTTP_BUCKETS,
    registers: [registry],
  })
  // Unlimited, because both are few: routes are the gateway's, and methods those that some route has.
  const all = new BoundedLabels(Number.POSITIVE_INFINITY)
  const series = new SeriesByPair(all, all, (route, method) =>
    STATUS_CLASSES.map((status) => histogram.labels(route, method, status)),
  )
  return {
    requestDone(route, method, status, seconds) {
      const served = METHODS.has(method) ? method : 'other'
      series.get(route, served)[Math.floor(status / 100)]?.observe(seconds)
    },
  }
}
