/** Helpers for gauges that are read at each scrape. */
import {
  Gauge,
  type OpenMetricsContentType,
  type PrometheusContentType,
  type Registry,
} from 'prom-client'
import type { BoundedLabels } from './bounded-labels.ts'

/** prom-client's `Registry` in either format, for programs that pass one of their own. */
export type MetricRegistry = Registry<PrometheusContentType> | Registry<OpenMetricsContentType>

/** A gauge that is read at each scrape. */
export function gauge(
  registry: MetricRegistry,
  name: string,
  help: string,
  read: () => number | Promise<number>,
): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      this.set(await read())
    },
  })
}

interface QueueGauge {
  name: string
  help: string
  read(): Iterable<readonly [queue: string, value: number]>
  /** Joins the values of queues beyond the limit, which share a label: the last one must not stand for all. */
  join: (one: number, other: number) => number
}

/** A gauge by queue that is read at each scrape. */
export function gaugeByQueue(
  registry: MetricRegistry,
  queues: BoundedLabels,
  { name, help, read, join }: QueueGauge,
): void {
  new Gauge({
    name,
    help,
    labelNames: ['queue'],
    registers: [registry],
    collect() {
      this.reset()
      const values = new Map<string, number>()
      for (const [queue, value] of read()) {
        const label = queues.of(queue)
        const before = values.get(label)
        values.set(label, before === undefined ? value : join(before, value))
      }
      for (const [queue, value] of values) this.set({ queue }, value)
    },
  })
}

export function sum(one: number, other: number): number {
  return one + other
}
