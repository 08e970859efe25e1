import { v7 } from 'uuid'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { NativeWorker } from '../../../src/worker/index.ts'
import { fetchOne, freshQueue, gatewayForAll, untilState } from '../../operations/harness.ts'
import { pikaConsume } from '../../support/broker/pika.ts'
import {
  longOfTheGrammar,
  nestedArrays,
  publishRaw,
  type RawHeader,
} from '../../support/broker/raw-headers.ts'
import { type ControlClient, connectControl } from '../../support/gateway/control.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { samplesOf, scrape } from '../../telemetry/exposition-text.ts'

const { vhost, gateway } = gatewayForAll()
let client: ControlClient

beforeAll(async () => {
  client = await connectControl(vhost.url)
})
afterAll(() => client.close())

const NESTED = nestedArrays('x-nested', 6_000)
const LONG = longOfTheGrammar('x-long', 7_000_000_000)

/** Publishes a native job with these headers and a readable one. `over`: members of the job. */
async function publish(queue: string, raw: RawHeader[], over: object = {}): Promise<string> {
  const id = v7()
  const retry = { initial_interval: 'PT0.1S', jitter: false }
  const job = { specversion: '1.0', id, type: 'strange.job', args: [], retry, ...over }
  await publishRaw(vhost.url, [
    {
      exchange: 'ojs.exchange.direct',
      routingKey: queue,
      content: Buffer.from(JSON.stringify(job)),
      options: { messageId: id, type: 'strange.job', headers: { 'x-tenant': 'acme' } },
      raw,
    },
  ])
  return id
}

/** How often the gateway has reconnected. */
async function reconnections(): Promise<number> {
  const counted = samplesOf(await scrape(gateway), 'ojs_amqp_reconnections_total')
  return Object.values(counted).reduce((sum, value) => sum + value, 0)
}

describe('a message with headers that amqplib cannot decode', () => {
  it.each([
    ['an L', [LONG]],
    ['6,000 levels', [NESTED]],
    ['both', [NESTED, LONG]],
  ])('is a job like any other, and no connection is lost: %s', async (_name, raw) => {
    const queue = freshQueue()
    await gateway.push(queue)
    await fetchOne(gateway, queue)
    const id = await publish(queue, raw)
    expect(await fetchOne(gateway, queue)).toMatchObject({ id, type: 'strange.job', attempt: 1 })
    expect((await gateway.push('other')).status).toBe(201)
    expect((await gateway.ack(id)).status).toBe(200)
    expect(await reconnections()).toBe(0)
  })

  it('keeps its readable headers on a retry', async () => {
    const queue = freshQueue()
    await gateway.push(queue)
    await fetchOne(gateway, queue)
    const id = await publish(queue, [NESTED, LONG])
    await fetchOne(gateway, queue)
    const error = { code: 'e', message: 'm', retryable: true }
    await gateway.request('POST', '/ojs/v1/workers/nack', { job_id: id, error })
    await untilState(gateway, id, 'available')
    const [message] = await pikaConsume(vhost.url, `ojs.queue.${queue}`, 1)
    expect(message?.headers).toMatchObject({
      'x-tenant': ['S', 'acme'],
      'x-long': ['l', 7_000_000_000],
      'x-ojs-attempt': ['I', 2],
    })
    expect(message?.headers).not.toHaveProperty('x-nested')
  })

  it('is dead-lettered when it is no job, and stays in its dead letter queue', async () => {
    const queue = freshQueue()
    await gateway.push(queue)
    await fetchOne(gateway, queue)
    await publish(queue, [NESTED, LONG], { type: 'no type' })
    await eventually(async () => {
      expect(await gateway.fetch([queue])).toEqual([])
      const { messageCount } = await client.channel.checkQueue(`ojs.queue.dlx.${queue}`)
      return messageCount === 1
    })
    expect(await reconnections()).toBe(0)
  })

  it('is obeyed on a control queue', async () => {
    const queue = freshQueue()
    const { body } = await gateway.push(queue)
    await publishRaw(vhost.url, [
      {
        exchange: 'ojs.exchange.direct',
        routingKey: `ojs.queue.control.${queue}`,
        content: Buffer.from(JSON.stringify({ job_id: body.job.id })),
        options: { messageId: v7(), type: 'ojs.control.cancel' },
        raw: [NESTED],
      },
    ])
    await untilState(gateway, body.job.id, 'cancelled')
    expect(await reconnections()).toBe(0)
  })

  it('is handled by a native worker', async () => {
    const queue = freshQueue()
    const ran: string[] = []
    const worker = new NativeWorker({ url: vhost.url, queues: [queue], logger: false })
    worker.register('strange.job', ({ job }) => void ran.push(job.id))
    await worker.start()
    const id = await publish(queue, [NESTED, LONG])
    await untilState(gateway, id, 'completed')
    expect(ran).toEqual([id])
    await worker.stop()
  })
})
