import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { expect, test, vi } from 'vitest'
import { createMetrics, type MetricSources } from '../../src/telemetry/metrics.ts'
import { standbyMetrics } from '../../src/telemetry/standby-metrics.ts'

const page = readFileSync(resolve(import.meta.dirname, '../../docs/reference/metrics.md'), 'utf8')

/** A metric as prom-client holds it, which its types do not declare. */
interface Registered {
  name: string
  labelNames: string[]
}

/** Type and labels of each of our metrics by its name. */
function registered(): Record<string, string> {
  const register = vi.spyOn(Registry.prototype, 'registerMetric')
  createMetrics().exposition({ gateway: { sharesLedger: true } } as MetricSources)
  standbyMetrics({ version: '', isLedgerReachable: () => true })
  const metrics = register.mock.calls.map(([metric]) => metric as unknown as Registered)
  register.mockRestore()
  const ours = metrics.filter(({ name }) => name.startsWith('ojs_'))
  return Object.fromEntries(
    ours.map((metric) => [metric.name, `${typeOf(metric)} ${metric.labelNames.join(', ')}`]),
  )
}

function typeOf(metric: object): string {
  if (metric instanceof Counter) return 'counter'
  if (metric instanceof Gauge) return 'gauge'
  return metric instanceof Histogram ? 'histogram' : 'another'
}

const ROW = /^\| `(ojs_\w+)` \| (\w+) \| (.*?) ?\| .+ \|$/gm

test('docs/reference/metrics.md lists each metric with its type and labels, and no other', () => {
  const rows = [...page.matchAll(ROW)].map(([, name = '', type = '', labels = '']) => [
    name,
    `${type} ${labels.replaceAll('`', '')}`,
  ])
  expect(new Set(rows.map(([name]) => name)).size).toBe(rows.length)
  expect(Object.fromEntries(rows)).toEqual(registered())
})

test('docs/reference/metrics.md names no metric that does not exist', () => {
  const known = Object.keys(registered())
  const named = new Set(page.match(/\bojs_\w+/g))
  expect([...named].filter((name) => !known.includes(name))).toEqual([])
})
