import { describe, expect, it } from 'vitest'
import { eventually } from '../support/gateway/in-process.ts'
import { difference, samplesOf, scrape } from '../telemetry/exposition-text.ts'
import { amqpStage, answerTo, deliveryOf, onJobQueues } from './stage.ts'

const { wire, gateway, admin, clients } = amqpStage()

const CONNECTIONS = 3

const isHealthy = async () => (await gateway.request('GET', '/ojs/v1/health')).status === 200
const metric = async (name: string) => samplesOf(await scrape(gateway), name)[name] ?? 0

/** Starts a FETCH that waits for a job. Resolves once the gateway has it. */
async function startWaiting(queue: string): Promise<{ jobs: Promise<{ id: string }[]> }> {
  const jobs = gateway.fetch([queue], { wait_ms: 30_000 })
  await eventually(async () => (await metric(`ojs_fetch_waiters{queue="${queue}"}`)) === 1)
  return { jobs }
}

describe('a lost connection', () => {
  it('AMQP-025 reconnects with exponential backoff: 1 s, 2 s, 4 s, each ±25 %', async () => {
    const reconnections = async () =>
      samplesOf(await scrape(gateway), 'ojs_amqp_reconnections_total')
    const before = await reconnections()
    const from = wire.attempts.length
    const since = () => wire.attempts.slice(from).map((at) => at - cutAt)
    wire.proxy.refuse(true)
    const cutAt = performance.now()
    wire.proxy.cut()
    // Two attempts of each connection fail. There is no upper bound, because a busy machine may delay them.
    await eventually(() => since().length >= 2 * CONNECTIONS)
    wire.proxy.refuse(false)
    await eventually(() => since().length >= 3 * CONNECTIONS)
    await eventually(isHealthy)
    // The nth attempt of each connection comes after at least 1, 1 + 2, 1 + 2 + 4 s, less 25 %. There may be
    // one more attempt, of a check for a new queue.
    const attempts = since()
    for (const [n, seconds] of [1, 3, 7].entries()) {
      const earliest = attempts.slice(n * CONNECTIONS, (n + 1) * CONNECTIONS)
      for (const at of earliest) expect(at).toBeGreaterThan(0.74 * seconds * 1000)
    }
    expect(difference(before, await reconnections())).toEqual(
      Object.fromEntries(
        ['consume', 'declare', 'publish'].map((connection) => [
          `ojs_amqp_reconnections_total{connection="${connection}"}`,
          3,
        ]),
      ),
    )
  })

  it('AMQP-026 declares the topology again, and consumes with the same prefetch', async () => {
    const queue = 'ojs.queue.rebuilt'
    await clients.push('rebuilt')
    await clients.fetch('rebuilt')
    const waiting = await startWaiting('rebuilt')
    const consumed = wire.all('BasicConsume', { queue })
    const from = wire.methods.length
    wire.proxy.refuse(true)
    wire.proxy.cut()
    for (const name of ['rebuilt', 'dlx.rebuilt', 'control.rebuilt']) {
      await admin.channel.deleteQueue(`ojs.queue.${name}`)
    }
    for (const name of ['direct', 'dlx', 'retry']) {
      await admin.channel.deleteExchange(`ojs.exchange.${name}`)
    }
    wire.proxy.refuse(false)
    await eventually(isHealthy)
    for (const name of ['direct', 'dlx', 'retry']) {
      const exchange = `ojs.exchange.${name}`
      expect(await answerTo(admin, (channel) => channel.checkExchange(exchange))).toBe('ok')
      await wire.next('ExchangeDeclare', { exchange }, from)
    }
    const consume = await wire.next('BasicConsume', { queue }, from)
    const prefetchOf = (method: typeof consume) =>
      wire.onChannelOf(method).find(({ name }) => name === 'BasicQos')?.fields['prefetchCount']
    expect(consumed.map(prefetchOf)).toContain(prefetchOf(consume))
    expect(prefetchOf(consume)).toBeGreaterThan(0)
    const id = await clients.push('rebuilt')
    expect(await waiting.jobs).toMatchObject([{ id }])
    expect(await metric('ojs_amqp_connections_active')).toBe(CONNECTIONS)
  })
})

it('serves again after the network drops its connections silently', async () => {
  const from = wire.attempts.length
  wire.proxy.strand()
  await eventually(() => wire.attempts.length >= from + CONNECTIONS)
  const { status, body } = await gateway.push('stranded')
  expect(status, JSON.stringify(body)).toBe(503)
  await eventually(isHealthy, 60_000)
  const id = await clients.push('stranded')
  expect(await clients.fetch('stranded')).toMatchObject([{ id }])
})

it('AMQP-027 handles a consumer cancellation: counts it and consumes again', async () => {
  const queue = 'ojs.queue.withdrawn'
  await clients.push('withdrawn')
  const [first] = await clients.fetch('withdrawn')
  await gateway.ack(first?.id ?? '')
  const waiting = await startWaiting('withdrawn')
  const { consumerTag } = deliveryOf(wire, first?.id ?? '').fields
  const from = wire.methods.length
  await admin.channel.deleteQueue(queue)
  const cancel = await wire.next('BasicCancel', { consumerTag }, from)
  expect(cancel.from).toBe('broker')
  const again = await wire.next('BasicConsume', { queue }, from)
  expect(again.fields['consumerTag']).not.toBe(consumerTag)
  const id = await clients.push('withdrawn')
  expect(await waiting.jobs).toMatchObject([{ id, attempt: 1 }])
  expect(await metric('ojs_amqp_consumer_cancels_total{queue="withdrawn"}')).toBe(1)
})

it('AMQP-028 uses a channel pool: each queue has one publish channel, each consumer its own channel', async () => {
  const queues = Array.from({ length: 12 }, (_, i) => `pooled${i}`)
  await Promise.all(queues.map((queue) => clients.push(queue)))
  await Promise.all(
    queues.map(async (queue) => {
      const pushes = Array.from({ length: 5 }, () => clients.push(queue))
      await Promise.all([...pushes, clients.fetch(queue)])
    }),
  )
  // The frames of one message are never mixed with those of another.
  expect(wire.intruders).toEqual([])
  const publishes = wire.all('BasicPublish', ({ fields }) =>
    queues.includes(`${fields['routingKey']}`),
  )
  expect(new Set(publishes.map(({ channel }) => channel)).size).toBeGreaterThan(1)
  for (const queue of queues) {
    const own = publishes.filter(({ fields }) => fields['routingKey'] === queue)
    expect(own).toHaveLength(6)
    expect(new Set(own.map(({ channel }) => channel)).size).toBe(1)
  }
  for (const consume of onJobQueues(wire, 'BasicConsume')) {
    const names = wire.onChannelOf(consume).map(({ name }) => name)
    expect(names.filter((name) => name === 'BasicConsume')).toHaveLength(1)
  }
  // No connection both publishes and consumes.
  const connectionsOf = (name: string) => new Set(wire.all(name).map((m) => m.connection))
  const publishing = [...connectionsOf('BasicPublish')]
  expect(publishing.filter((each) => connectionsOf('BasicConsume').has(each))).toEqual([])
})
