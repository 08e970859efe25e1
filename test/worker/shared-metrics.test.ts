import { type OpenMetricsContentType, Registry } from 'prom-client'
import { expect, test } from 'vitest'
import type { BrokerGauges } from '../../src/broker/observer.ts'
import { NativeProducer, NativeWorker } from '../../src/worker/index.ts'
import { joinMetrics } from '../../src/worker/shared-metrics.ts'

function gauges(over: Partial<BrokerGauges> = {}): BrokerGauges {
  const nothing = { connectionsActive: 2, channelsActive: 3, blocked: false, confirmsPending: 1 }
  return { ...nothing, consumers: [], queues: [], ...over }
}

async function readingOf(registry: Registry, name: string): Promise<number | undefined> {
  const { values } = (await registry.getSingleMetric(name)?.get()) ?? { values: [] }
  return values[0]?.value
}

test('two workers and a producer can share one registry', () => {
  const options = { url: 'amqp://localhost', registry: new Registry() }
  new NativeWorker(options)
  expect(() => new NativeProducer(options)).not.toThrow()
  expect(() => new NativeWorker(options)).not.toThrow()
})

test('a producer can feed a registry of type OpenMetrics', async () => {
  const registry = new Registry<OpenMetricsContentType>()
  registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE)
  const producer = new NativeProducer({ url: 'amqp://localhost', registry })
  const text = await registry.metrics()
  await producer.close()
  expect(text).toContain('# TYPE ojs_amqp_messages_published counter\n')
  expect(text).toMatch(/\n# EOF\n$/)
})

test('joinMetrics adds up the metrics of all that share a registry, until they leave', async () => {
  const registry = new Registry()
  const one = joinMetrics(registry, () => gauges())
  const other = joinMetrics(registry, () => gauges({ blocked: true, confirmsPending: 4 }))
  one.observer.published('email')
  other.observer.published('email')
  expect(await readingOf(registry, 'ojs_amqp_messages_published_total')).toBe(2)
  expect(await readingOf(registry, 'ojs_amqp_connections_active')).toBe(4)
  expect(await readingOf(registry, 'ojs_amqp_confirms_pending')).toBe(5)
  expect(await readingOf(registry, 'ojs_amqp_blocked')).toBe(1)
  other.leave()
  expect(await readingOf(registry, 'ojs_amqp_connections_active')).toBe(2)
  expect(await readingOf(registry, 'ojs_amqp_blocked')).toBe(0)
  expect(await readingOf(registry, 'ojs_amqp_messages_published_total')).toBe(2)
})

test('joinMetrics registers the metrics again in a registry that was cleared', async () => {
  const registry = new Registry()
  joinMetrics(registry, () => gauges()).leave()
  registry.clear()
  joinMetrics(registry, () => gauges())
  expect(await readingOf(registry, 'ojs_amqp_connections_active')).toBe(2)
})
