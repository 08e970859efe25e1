import { Registry } from 'prom-client'
import { describe, expect, test } from 'vitest'
import type { WorkerLogger } from '../../../src/sdk/index.ts'
import { NativeProducer, NativeWorker } from '../../../src/worker/index.ts'
import { adminForAll } from '../../broker/fixtures.ts'
import { vhostForAll } from '../../support/broker/rabbit.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { eventually, startTestGateway } from '../../support/gateway/in-process.ts'

/** The metrics of seed 002 §12.1. */
const ELEVEN = [
  ...['connections_active', 'channels_active', 'messages_published_total'],
  ...['messages_consumed_total', 'messages_acked_total', 'messages_nacked_total'],
  ...['messages_returned_total', 'messages_unacked', 'consumer_utilization'],
  ...['publish_confirm_latency_seconds', 'reconnections_total'],
].map((name) => `ojs_amqp_${name}`)

const vhost = vhostForAll()
const admin = adminForAll(vhost)

const QUIET = { logger: false, handleSignals: false, gracePeriod: 0 } as const

describe('a native worker', () => {
  test('feeds the eleven metrics of the binding', async () => {
    const registry = new Registry()
    const proxy = await TcpProxy.start(vhost.url)
    const worker = new NativeWorker({ url: proxy.url, queues: ['m'], registry, ...QUIET })
    let isOpen = false
    worker.register('good', () => eventually(() => isOpen))
    await worker.start()
    const producer = new NativeProducer({ url: vhost.url, logger: false })
    const value = async (name: string, labels: object = {}) => {
      const { values } = (await registry.getSingleMetric(name)?.get()) ?? { values: [] }
      const isWanted = (of: object) =>
        Object.entries(labels).every(([key, wanted]) => Reflect.get(of, key) === wanted)
      return values.filter((one) => isWanted(one.labels)).reduce((sum, one) => sum + one.value, 0)
    }
    await producer.enqueue('good', [], { queue: 'm' })
    await eventually(async () => (await value('ojs_amqp_messages_unacked', { queue: 'm' })) === 1)
    expect(await value('ojs_amqp_consumer_utilization', { queue: 'm' })).toBe(0.1)
    expect(await value('ojs_amqp_connections_active')).toBe(2)
    isOpen = true
    await producer.enqueue('unknown', [], { queue: 'm' })
    await eventually(async () => (await value('ojs_amqp_messages_nacked_total')) === 1)
    await eventually(async () => (await value('ojs_amqp_messages_acked_total')) === 1)
    expect(await value('ojs_amqp_messages_consumed_total', { queue: 'm' })).toBe(2)
    expect(await value('ojs_amqp_messages_published_total', { queue: 'm' })).toBeGreaterThan(1)
    await admin.channel.deleteQueue('ojs.queue.control.m')
    await producer.enqueue('good', [], { queue: 'm' })
    await eventually(async () => (await value('ojs_amqp_messages_returned_total')) > 0)
    await eventually(async () => (await value('ojs_amqp_messages_acked_total')) === 2)
    proxy.cut()
    await eventually(async () => (await value('ojs_amqp_reconnections_total')) >= 2)
    await eventually(async () => (await value('ojs_amqp_connections_active')) === 2)
    const text = await registry.metrics()
    for (const name of ELEVEN) expect(text).toContain(`# TYPE ${name} `)
    isOpen = false
    await producer.enqueue('good', [], { queue: 'm' })
    await eventually(async () => (await value('ojs_amqp_messages_unacked', { queue: 'm' })) === 1)
    await worker.stop()
    expect(await value('ojs_amqp_messages_nacked_total', { queue: 'm' })).toBe(2)
    await producer.close()
    await proxy.stop()
  })

  test('with a prefix works with the gateway of the same prefix: jobs complete and can be cancelled', async () => {
    const gateway = await startTestGateway(vhost.url, { OJS_PREFIX: 'tenant1' })
    const ran: string[] = []
    const worker = new NativeWorker({
      url: vhost.url,
      prefix: 'tenant1',
      queues: ['p'],
      ...QUIET,
    })
    worker.register('test.job', async ({ job, signal }) => {
      ran.push(job.id)
      if (job.args[0] === 'long') {
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
      }
    })
    await worker.start()
    const stateOf = async (id: string) => (await gateway.get(id)).body.job.state
    const short = (await gateway.push('p')).body.job.id
    await eventually(async () => (await stateOf(short)) === 'completed')
    const long = (await gateway.push('p', { args: ['long'] })).body.job.id
    await eventually(() => ran.includes(long))
    await gateway.cancel(long)
    await eventually(() => worker.activeJobs === 0)
    expect(await stateOf(long)).toBe('cancelled')
    await worker.stop()
    await gateway.destroy()
  })

  test('logs that its login is refused, but never its password', async () => {
    const lines: unknown[] = []
    const log: WorkerLogger['warn'] = (...line) => lines.push(line)
    const url = new URL(vhost.url)
    url.password = 'wrong-secret'
    const logger = { info: log, warn: log, error: log }
    const worker = new NativeWorker({ url: url.href, ...QUIET, logger })
    const starting = worker.start()
    await eventually(() => JSON.stringify(lines).includes('ACCESS_REFUSED'))
    await worker.stop()
    await starting
    expect(JSON.stringify(lines)).not.toContain('wrong-secret')
  })
})
