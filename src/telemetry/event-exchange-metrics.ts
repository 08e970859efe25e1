/** Metrics of the events on their way to `ojs.exchange.events`. */
import { Counter } from 'prom-client'
import type { EventExchangeObserver } from '../broker/observer.ts'
import { gauge, type MetricRegistry } from './gauges.ts'

export function eventExchangeMetrics(registry: MetricRegistry): EventExchangeObserver {
  const total = (name: string, help: string) => new Counter({ name, help, registers: [registry] })
  const published = total('ojs_events_published_total', 'Events that ojs.exchange.events confirmed')
  const dropped = total(
    'ojs_events_dropped_total',
    'Events forgotten before they could be published, or refused by a bound queue',
  )
  return { published: () => published.inc(), dropped: (count) => dropped.inc(count) }
}

export function eventExchangeGauge(registry: MetricRegistry, pending: () => number): void {
  gauge(registry, 'ojs_events_pending', 'Events without a confirm of ojs.exchange.events', pending)
}
