import amqp from 'amqplib'
import { v7 } from 'uuid'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually } from '../../support/gateway/in-process.ts'
import { fetchMany, gatewayForAll, nack } from '../harness.ts'

const HUGE = 9.223372e18

describe('native messages', () => {
  const limits = { OJS_MAX_BODY_BYTES: '1024', OJS_MAX_BATCH_BYTES: '4096' }
  const { vhost, gateway } = gatewayForAll(limits)
  let connection: amqp.ChannelModel
  let channel: amqp.ConfirmChannel

  beforeAll(async () => {
    connection = await amqp.connect(vhost.url)
    channel = await connection.createConfirmChannel()
  })
  afterAll(async () => {
    await connection.close()
  })

  async function publish(body: object, options: amqp.Options.Publish = {}): Promise<string> {
    const id = v7()
    const content = Buffer.from(JSON.stringify({ id, type: 'native.job', args: [], ...body }))
    channel.publish('ojs.exchange.direct', 'q', content, { messageId: id, ...options })
    await channel.waitForConfirms()
    return id
  }

  const dead = async () => (await channel.checkQueue('ojs.queue.dlx.q')).messageCount

  it.each([
    ['timeout_ms', { timeout_ms: HUGE }],
    ['timeout', { timeout: HUGE }],
    ['visibility_timeout_ms', { visibility_timeout_ms: HUGE }],
    ['visibility_timeout', { visibility_timeout: HUGE }],
    ['retry.max_attempts', { retry: { max_attempts: HUGE } }],
  ])('compare to HTTP, where a huge %s is refused with 400 or 422', async (field, options) => {
    const answer = await gateway.push('q', { options })
    expect([400, 422]).toContain(answer.status)
    expect(answer.body.error.details.field).toBe(`options.${field}`)
  })

  it('with huge numbers are dead-lettered and do not hold up other jobs', async () => {
    const first: string = (await gateway.push('q')).body.job.id
    await publish({ timeout_ms: 1e300 })
    await publish({ retry: { max_attempts: 1e300 } })
    const odd = await publish({}, { timestamp: 1_700_000_000_000_000 })
    const last: string = (await gateway.push('q')).body.job.id
    const got: string[] = []
    await eventually(async () => {
      const jobs = await gateway.fetch(['q'], { count: 10, wait_ms: 500 })
      got.push(...jobs.map((job) => job.id))
      return got.length >= 3
    })
    // A timestamp in microseconds, where AMQP wants seconds, is no reason to refuse the job.
    expect(got).toEqual([first, odd, last])
    await eventually(async () => (await dead()) === 2)
  })

  it('larger than OJS_MAX_BATCH_BYTES are dead-lettered without being parsed', async () => {
    const before = await dead()
    const type = 'native.limited'
    const rate_limit = { max_per_second: 1e-9 }
    const fit = await publish({ type, rate_limit, args: ['x'.repeat(3_000)] })
    await publish({ args: ['x'.repeat(5_000)] })
    // If its rate limit were parsed, the message would be parked instead.
    await publish({ type, rate_limit, args: ['x'.repeat(5_000)] })
    expect(await fetchMany(gateway, 'q', 1)).toMatchObject([{ id: fit }])
    await gateway.ack(fit)
    await eventually(async () => {
      expect(await gateway.fetch(['q'], { wait_ms: 300 })).toEqual([])
      return (await dead()) === before + 2
    })
  })

  it('with a timestamp in other units than seconds get the time of arrival as created_at', async () => {
    const before = Date.now()
    const ids = [
      await publish({}, { timestamp: Date.now() }),
      await publish({}, { timestamp: Date.now() * 1_000 }),
    ]
    const jobs = await fetchMany(gateway, 'q', 2)
    expect(jobs.map((job) => job.id)).toEqual(ids)
    for (const { id, created_at } of jobs) {
      expect(created_at).toMatch(/^\d{4}-/)
      expect(Date.parse(created_at)).toBeGreaterThanOrEqual(before - 1_000)
      await gateway.ack(id)
    }
  })

  it('pass the trace and correlation id of their body on to the headers of the next attempt', async () => {
    const traceparent = `00-${'4b'.repeat(16)}-${'a1'.repeat(8)}-01`
    const meta = { traceparent, tracestate: 'a=1', correlation_id: 'order-1' }
    const id = await publish({ meta, retry: { initial_interval_ms: 100, jitter: false } })
    expect(await fetchMany(gateway, 'q', 1)).toMatchObject([{ id, meta }])
    const next: (amqp.ConsumeMessage | null)[] = []
    const options = { priority: 10, noAck: true }
    const { consumerTag } = await channel.consume(
      'ojs.queue.q',
      (message) => next.push(message),
      options,
    )
    await nack(gateway, id)
    await eventually(async () => next.length > 0)
    await channel.cancel(consumerTag)
    expect(next[0]?.properties).toMatchObject({
      messageId: id,
      correlationId: 'order-1',
      headers: { 'x-ojs-trace-id': traceparent, 'x-ojs-trace-state': 'a=1' },
    })
  })

  it('pass tags and created_at of their headers on to FETCH and the next attempt', async () => {
    const said = { 'x-ojs-tags': 'a, b', 'x-ojs-created-at': '2026-01-02T03:04:05.678Z' }
    const retry = { initial_interval_ms: 100, jitter: false }
    const told = await publish({ retry }, { timestamp: 1, headers: said })
    const odd = { 'x-ojs-tags': ' ,', 'x-ojs-created-at': 'yesterday' }
    const vague = await publish({}, { timestamp: 1, headers: odd })
    const jobs = await fetchMany(gateway, 'q', 2)
    const created = said['x-ojs-created-at']
    expect(jobs).toMatchObject([
      { id: told, tags: ['a', 'b'], created_at: created },
      { id: vague, tags: [], created_at: '1970-01-01T00:00:01.000Z' },
    ])

    // The priority puts this consumer before the gateway's own one, which has none.
    const next: (amqp.ConsumeMessage | null)[] = []
    const options = { priority: 10, noAck: true }
    await channel.consume('ojs.queue.q', (message) => next.push(message), options)
    await nack(gateway, told)
    await eventually(async () => next.length > 0)
    expect(next[0]?.properties).toMatchObject({
      messageId: told,
      headers: { 'x-ojs-tags': 'a,b', 'x-ojs-created-at': created },
    })
  })
})
