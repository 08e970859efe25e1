/** prom-client's own metrics, and the page that shows them before ours. */
import { collectDefaultMetrics, Registry } from 'prom-client'
import type { MetricsPage } from './exposition.ts'

/**
 * Gauges of prom-client that are named like counters, which `promtool check metrics` refuses. They are only
 * the sums of other gauges, which stay.
 */
const MISNAMED = [
  'nodejs_active_resources_total',
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
]

let processRegistry: Registry | undefined

/** The metrics that `registry` has by now, and those of the process. */
export function pageOf(registry: Registry): MetricsPage {
  const all = Registry.merge([processMetrics(), registry])
  return { contentType: all.contentType, text: () => all.metrics() }
}

/**
 * prom-client's own metrics, made once per process. Each set of them watches the event loop and the garbage
 * collector until the process ends (2 MB, and a timer of 10 ms), and a program that embeds the gateway may
 * start it often.
 */
function processMetrics(): Registry {
  if (processRegistry !== undefined) return processRegistry
  const made = new Registry()
  collectDefaultMetrics({ register: made })
  for (const name of MISNAMED) made.removeSingleMetric(name)
  processRegistry = made
  return made
}
