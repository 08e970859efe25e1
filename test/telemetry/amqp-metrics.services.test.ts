import { spawnSync } from 'node:child_process'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { adminForAll } from '../broker/fixtures.ts'
import { vhostForAll } from '../support/broker/rabbit.ts'
import { type Method, Wire } from '../support/broker/wire.ts'
import { eventually, startTestGateway, type TestGateway } from '../support/gateway/in-process.ts'
import { difference, type Samples, samplesOf, scrape } from './exposition-text.ts'

/** Deliveries per consumer: a utilization of 1 means that all of them are unacknowledged. */
const PREFETCH = 32

/** Each test that changes metrics has its own queue. */
const QUEUES = [
  'published',
  'consumed',
  'given-back',
  'malformed',
  'returned',
  'cancelled',
  'unconfirmed',
  'lost',
]

const AMQP_QUEUES = new Set(QUEUES.map((queue) => `ojs.queue.${queue}`))

/** From Debian's package prometheus: in the PATH, or at the path of the variable. */
const PROMTOOL = process.env['OJS_TEST_PROMTOOL'] ?? 'promtool'
const hasPromtool = spawnSync(PROMTOOL, ['--version']).status === 0

const vhost = vhostForAll()
const admin = adminForAll(vhost)

describe('the metrics of seed 002 §12.1, changed by real messages', () => {
  let wire: Wire
  let gateway: TestGateway

  beforeAll(async () => {
    wire = await Wire.start(vhost.url)
    // The gateway's check every ten seconds would change the metrics, too.
    const patient = { watchMs: 3_600_000 }
    gateway = await startTestGateway(wire.url, { OJS_PUBLISH_TIMEOUT_MS: '5000' }, patient)
    await Promise.all(QUEUES.map((queue) => declare(queue)))
  })
  afterAll(async () => {
    await gateway.destroy()
    await wire.stop()
  })

  // A consumer of the previous test must not change the metrics of the next one.
  beforeEach(async () => {
    await Promise.all(QUEUES.map((queue) => resting(queue)))
    await untilChannelsRest()
  })

  /** The channel of a consumer or a declaration closes after it; the gateway notices later than the wire. */
  const untilChannelsRest = () =>
    eventually(async () => {
      const open = openChannels()
      return open.every(isForGood) && (await value('ojs_amqp_channels_active')) === open.length
    })

  /** The index of the first method of the present connections on the wire. */
  let epoch = 0
  /** The number of channels whose close RabbitMQ has confirmed. */
  const closed = () => wire.all('ChannelCloseOk', ({ from }) => from === 'broker').length
  const openChannels = () =>
    wire
      .all('ChannelOpen', {}, epoch)
      .map((open) => wire.onChannelOf(open))
      .filter((methods) => !methods.some(({ name }) => name === 'ChannelCloseOk'))
  /** Whether a channel stays open: it publishes, or consumes control messages or the owner queue. */
  const isForGood = (methods: Method[]) =>
    methods.some(
      ({ name, fields }) =>
        name === 'ConfirmSelect' ||
        (name === 'BasicConsume' && !AMQP_QUEUES.has(`${fields['queue']}`)),
    )

  const now = async () => samplesOf(await scrape(gateway), 'ojs_amqp_')
  const value = async (name: string) => (await now())[name] ?? 0

  /** Waits until exactly these AMQP metrics have changed since `before`, by these values. */
  async function movedBy(before: Samples, by: Samples): Promise<void> {
    await expect.poll(async () => difference(before, await now()), { timeout: 15_000 }).toEqual(by)
  }

  /** Has the gateway declare the queue, and leaves it empty. */
  async function declare(queue: string): Promise<void> {
    expect((await gateway.push(queue)).status).toBe(201)
    const [job] = await fetchAll(queue, 1)
    await gateway.ack(job?.id ?? '')
  }

  /** Waits until the gateway has cancelled the consumer, which it does 2 s after the last FETCH. */
  async function resting(queue: string): Promise<void> {
    await eventually(async () => {
      const gauges = await now()
      return gauges[`ojs_amqp_consumer_utilization{queue="${queue}"}`] === undefined
    })
  }

  /** Keeps the consumer of an empty queue alive by a waiting FETCH. */
  function startWaiting(queue: string): { end(): Promise<void> } {
    const gone = new AbortController()
    const answered = fetch(`${gateway.url}/ojs/v1/workers/fetch`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/openjobspec+json' },
      body: JSON.stringify({ queues: [queue], wait_ms: 30_000 }),
      signal: gone.signal,
    }).catch(() => {})
    return {
      end: async () => {
        gone.abort()
        await answered
      },
    }
  }

  async function fetchAll(queue: string, count: number): Promise<{ id: string }[]> {
    const jobs: { id: string }[] = []
    await eventually(async () => {
      const rest = count - jobs.length
      jobs.push(...(await gateway.fetch([queue], { count: rest, wait_ms: 5_000 })))
      return jobs.length === count
    })
    return jobs
  }

  test('count published messages and measure the time to their confirms', async () => {
    const queue = '{queue="published"}'
    const sum = async () => {
      const text = await scrape(gateway)
      return Number(/^ojs_amqp_publish_confirm_latency_seconds_sum (.*)$/m.exec(text)?.[1])
    }
    const [before, sumBefore, startedAt] = [await now(), await sum(), performance.now()]
    for (let i = 0; i < 3; i++) await gateway.push('published')
    const elapsed = (performance.now() - startedAt) / 1000
    await movedBy(before, {
      [`ojs_amqp_messages_published_total${queue}`]: 3,
      ojs_amqp_publish_confirm_latency_seconds_count: 3,
    })
    expect((await sum()) - sumBefore).toBeGreaterThan(0)
    expect((await sum()) - sumBefore).toBeLessThan(elapsed)
  })

  test('count consumed and acked messages, and raise and lower unacked, utilization and channels', async () => {
    const queue = '{queue="consumed"}'
    for (let i = 0; i < 8; i++) await gateway.push('consumed')
    // Else a channel that is about to close would make up for the one that FETCH opens.
    await untilChannelsRest()
    const before = await now()
    const jobs = await fetchAll('consumed', 8)
    const waiting = startWaiting('consumed')
    await movedBy(before, {
      [`ojs_amqp_messages_consumed_total${queue}`]: 8,
      [`ojs_amqp_messages_unacked${queue}`]: 8,
      [`ojs_amqp_consumer_utilization${queue}`]: 8 / PREFETCH,
      ojs_amqp_channels_active: 1,
    })
    for (const { id } of jobs.slice(0, 6)) expect((await gateway.ack(id)).status).toBe(200)
    expect(await value(`ojs_amqp_messages_unacked${queue}`)).toBe(2)
    expect(await value(`ojs_amqp_consumer_utilization${queue}`)).toBe(2 / PREFETCH)
    await waiting.end()
    for (const { id } of jobs.slice(6)) expect((await gateway.ack(id)).status).toBe(200)
    expect(await value(`ojs_amqp_messages_unacked${queue}`)).toBe(0)
    await movedBy(before, {
      [`ojs_amqp_messages_consumed_total${queue}`]: 8,
      [`ojs_amqp_messages_acked_total${queue}`]: 8,
    })
  })

  test('count messages that go back unfetched as nacked, and as redelivered when they come again', async () => {
    const queue = '{queue="given-back"}'
    for (let i = 0; i < 3; i++) await gateway.push('given-back')
    const before = await now()
    const [job] = await fetchAll('given-back', 1)
    await eventually(async () => (await value(`ojs_amqp_messages_nacked_total${queue}`)) > 0)
    expect(await value(`ojs_amqp_messages_unacked${queue}`)).toBe(1)
    await gateway.ack(job?.id ?? '')
    await movedBy(before, {
      [`ojs_amqp_messages_consumed_total${queue}`]: 3,
      [`ojs_amqp_messages_nacked_total${queue}`]: 2,
      [`ojs_amqp_messages_acked_total${queue}`]: 1,
    })
    const jobs = await fetchAll('given-back', 2)
    expect(await value(`ojs_amqp_messages_redelivered_total${queue}`)).toBe(2)
    for (const { id } of jobs) await gateway.ack(id)
  })

  test('count a malformed message as nacked and dead-lettered', async () => {
    const queue = '{queue="malformed"}'
    await admin.publish('ojs.queue.malformed', ['not-an-ojs-job'])
    const before = await now()
    const waiting = startWaiting('malformed')
    const deadLettered = `ojs_amqp_messages_dead_lettered_total${queue}`
    await expect.poll(() => value(deadLettered)).toBe(1)
    await waiting.end()
    await resting('malformed')
    await movedBy(before, {
      [`ojs_amqp_messages_consumed_total${queue}`]: 1,
      [`ojs_amqp_messages_nacked_total${queue}`]: 1,
      [deadLettered]: 1,
    })
    expect(samplesOf(await scrape(gateway), 'ojs_token_malformed_total')).toEqual({
      [`ojs_token_malformed_total${queue}`]: 1,
    })
  })

  test('count the return of a message whose queue was deleted, and its second publish', async () => {
    const queue = '{queue="returned"}'
    await admin.channel.deleteQueue('ojs.queue.returned')
    const before = await now()
    expect((await gateway.push('returned')).status).toBe(201)
    await movedBy(before, {
      // The passive declare that finds no queue.
      'ojs_amqp_channel_errors_total{connection="declare",code="404"}': 1,
      ojs_amqp_messages_returned_total: 1,
      [`ojs_amqp_messages_published_total${queue}`]: 2,
      ojs_amqp_publish_confirm_latency_seconds_count: 1,
    })
  })

  test('count a consumer that RabbitMQ cancels', async () => {
    const queue = '{queue="cancelled"}'
    const waiting = gateway.fetch(['cancelled'], { wait_ms: 30_000 })
    await eventually(async () => {
      const { consumerCount } = await admin.channel.checkQueue('ojs.queue.cancelled')
      return consumerCount === 1
    })
    await admin.channel.deleteQueue('ojs.queue.cancelled')
    const cancels = `ojs_amqp_consumer_cancels_total${queue}`
    await expect.poll(() => value(cancels), { timeout: 15_000 }).toBe(1)
    const { body } = await gateway.push('cancelled')
    expect(await waiting).toMatchObject([{ id: body.job.id }])
    await gateway.ack(body.job.id)
    expect(await value(cancels)).toBe(1)
  })

  test('count a confirm that does not come in time', async () => {
    const queue = '{queue="unconfirmed"}'
    const [before, closedBefore] = [await now(), closed()]
    wire.proxy.hold('to-gateway')
    const pushing = gateway.push('unconfirmed')
    await expect.poll(() => value('ojs_amqp_confirms_pending')).toBe(1)
    expect((await pushing).status).toBe(503)
    wire.proxy.release('to-gateway')
    // The channel without the confirm is closed, and a new one replaces it.
    await eventually(() => closed() > closedBefore)
    await movedBy(before, {
      [`ojs_amqp_messages_published_total${queue}`]: 1,
      [`ojs_amqp_confirm_timeouts_total${queue}`]: 1,
      // Native workers are told not to run the refused job.
      ['ojs_amqp_messages_published_total{queue="ojs.control.workers"}']: 1,
      ojs_amqp_publish_confirm_latency_seconds_count: 1,
    })
  })

  test('count lost deliveries and reconnections, and follow connections and channels down and up', async () => {
    const queue = '{queue="lost"}'
    // After a confirm timeout a queue has its own publish channel until a publish is confirmed.
    const [channels, closedBefore] = [await value('ojs_amqp_channels_active'), closed()]
    expect((await gateway.push('unconfirmed')).status).toBe(201)
    await eventually(() => closed() > closedBefore)
    await expect.poll(() => value('ojs_amqp_channels_active')).toBe(channels)
    const before = await now()
    expect(before['ojs_amqp_connections_active']).toBe(3)
    for (let i = 0; i < 2; i++) await gateway.push('lost')
    const jobs = await fetchAll('lost', 2)
    const unacked = `ojs_amqp_messages_unacked${queue}`
    expect(await value(unacked)).toBe(2)
    wire.proxy.cut()
    wire.proxy.hold('to-gateway')
    await expect.poll(() => value('ojs_amqp_connections_active')).toBe(0)
    expect(await value('ojs_amqp_channels_active')).toBe(0)
    expect(await value(unacked)).toBe(0)
    expect(await value(`ojs_amqp_deliveries_lost_total${queue}`)).toBe(2)
    epoch = wire.methods.length
    wire.proxy.release('to-gateway')
    await expect.poll(() => value('ojs_amqp_connections_active'), { timeout: 15_000 }).toBe(3)
    for (const { id } of jobs) expect((await gateway.ack(id)).status).toBe(200)
    await resting('lost')
    // The channels of the control queues are reopened one after another.
    await expect
      .poll(() => value('ojs_amqp_channels_active'), { timeout: 15_000 })
      .toBe(before['ojs_amqp_channels_active'])
    const moved = difference(before, await now())
    expect(moved).toMatchObject({
      'ojs_amqp_reconnections_total{connection="publish"}': 1,
      'ojs_amqp_reconnections_total{connection="consume"}': 1,
      'ojs_amqp_reconnections_total{connection="declare"}': 1,
      [`ojs_amqp_deliveries_lost_total${queue}`]: 2,
    })
    expect(moved).not.toHaveProperty('ojs_amqp_connections_active')
  })

  test.skipIf(!hasPromtool)(
    'pass promtool check metrics (skipped without promtool: Debian package prometheus)',
    async () => {
      const checked = spawnSync(PROMTOOL, ['check', 'metrics'], {
        input: await scrape(gateway),
        encoding: 'utf8',
      })
      expect(checked).toMatchObject({ status: 0, stdout: '', stderr: '' })
    },
  )
})

describe('labels whose values clients choose', () => {
  const TOO_MANY = 205
  const LIMIT = 200
  let gateway: TestGateway

  beforeAll(async () => {
    // Queues without a FETCH must not lose their metrics during the test.
    gateway = await startTestGateway(vhost.url, {}, { idleMs: 600_000 })
  })
  afterAll(() => gateway.destroy())

  /** The different values of this label in each family. */
  function valuesOf(text: string, label: string): Map<string, Set<string>> {
    const families = new Map<string, Set<string>>()
    for (const [, name = '', labels = ''] of text.matchAll(/^(ojs_\w+)\{(.*)\} /gm)) {
      const found = new RegExp(`(?:^|,)${label}="([^"]*)"`).exec(labels)?.[1]
      if (found === undefined) continue
      families.set(name, (families.get(name) ?? new Set()).add(found))
    }
    return families
  }

  function expectBounded(text: string, label: string): void {
    const families = valuesOf(text, label)
    expect(families.size).toBeGreaterThan(0)
    for (const [family, values] of families) {
      expect([family, values.size <= LIMIT + 1]).toEqual([family, true])
    }
  }

  test('keep the first 200 job types, and count all others as other', async () => {
    const types = Array.from({ length: TOO_MANY }, (_, i) => `type_${i}`)
    const answers = await Promise.all(types.map((type) => gateway.push('types', { type })))
    expect(answers.map(({ status }) => status)).toEqual(types.map(() => 201))
    const text = await scrape(gateway)
    expect(valuesOf(text, 'type').get('ojs_job_enqueued_total')?.size).toBe(LIMIT + 1)
    const other = 'ojs_job_enqueued_total{queue="types",type="other"}'
    expect(samplesOf(text, other)).toEqual({ [other]: TOO_MANY - LIMIT })
    expectBounded(text, 'type')
  })

  test('keep the first 200 queues, and count all others as other', async () => {
    // A FETCH makes a label of its queue, even if the queue does not exist.
    for (const half of ['a', 'b']) {
      const queues = Array.from({ length: 100 }, (_, i) => `${half}${i}`)
      expect(await gateway.fetch(queues)).toEqual([])
    }
    const named = new Set(
      [...valuesOf(await scrape(gateway), 'queue').values()].flatMap((v) => [...v]),
    )
    expect(named.size).toBe(LIMIT + 1)
    for (let i = 0; i < 3; i++) expect((await gateway.push(`late${i}`)).status).toBe(201)
    const text = await scrape(gateway)
    const published = 'ojs_amqp_messages_published_total{queue="other"}'
    expect(samplesOf(text, published)).toEqual({ [published]: 3 })
    const enqueued = 'ojs_job_enqueued_total{queue="other",type="other"}'
    expect(samplesOf(text, enqueued)).toEqual({ [enqueued]: 3 })
    const depth = 'ojs_queue_depth{queue="other",state="available"}'
    expect(samplesOf(text, depth)).toEqual({ [depth]: 3 })
    expectBounded(text, 'queue')
  })
})
