import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import type { ControlMessage } from '../../../src/broker/broker.ts'
import { ControlConsumer } from '../../../src/broker/control/consumer.ts'
import { createNames } from '../../../src/broker/names.ts'
import type { BrokerDeps } from '../../../src/broker/options.ts'
import { systemClock } from '../../../src/clock.ts'
import { vhostOfTest } from '../fixtures.ts'
import {
  type AllHooks,
  connectAdmin,
  logger,
  newDenials,
  Recorder,
  scratch,
  startConnection,
  type TestBroker,
} from '../harness.ts'

const { vhost, admin, start, reconnectAdmin } = vhostOfTest()

const DEFAULT = 'ojs.queue.control.default'
const EMAIL = 'ojs.queue.control.email'
const REPORT = 'ojs.control.report'

/** Publishes as a worker does. */
async function say(queue: string, type: string, options: object = {}, prefix = ''): Promise<void> {
  const { channel } = admin
  const content = Buffer.from(JSON.stringify({ type }))
  const sent = { persistent: true, mandatory: true, type, ...options }
  channel.publish(`${prefix}ojs.exchange.direct`, `${prefix}${queue}`, content, sent)
  await channel.waitForConfirms()
}

async function depth(queue: string): Promise<{ messageCount: number; consumerCount: number }> {
  const channel = await scratch(admin)
  const { messageCount, consumerCount } = await channel.checkQueue(queue)
  await channel.close()
  return { messageCount, consumerCount }
}

function controlTypes({ recorder }: TestBroker): string[] {
  return recorder.all('onControl').map(({ args }) => String(args[0]))
}

function messageOf({ recorder }: TestBroker, type: string): ControlMessage {
  const [seen] = recorder.all('onControl', type)
  return seen?.args[1] as ControlMessage
}

/** An onControl hook that answers when the test calls `settle`. */
function open() {
  const waiting: { type: string; settle: (how?: Error) => void }[] = []
  const onControl = ({ type }: ControlMessage) =>
    new Promise<'handled'>((resolve, reject) => {
      waiting.push({ type, settle: (how) => (how ? reject(how) : resolve('handled')) })
    })
  return { waiting, onControl, types: () => waiting.map(({ type }) => type) }
}

describe.each(['classic', 'quorum'] as const)('control queues, profile %s', (queueType) => {
  it('are consumed for the queue `default` from the start, and for each queue that becomes known', async () => {
    const test = await start({ queueType })
    await say(DEFAULT, 'a')
    await test.recorder.until('onControl', 1, 'a')
    await test.broker.ensureQueue('email')
    await say(EMAIL, 'b', { correlationId: 'c', replyTo: 'my.queue' })
    await test.recorder.until('onControl', 1, 'b')
    expect(messageOf(test, 'b')).toEqual({
      queue: 'email',
      type: 'b',
      content: Buffer.from('{"type":"b"}'),
      redelivered: false,
      replyTo: 'my.queue',
      isLarge: false,
      correlationId: 'c',
    })
    await expect.poll(() => depth(EMAIL)).toEqual({ messageCount: 0, consumerCount: 1 })
  })

  it('are consumed for queues of earlier runs and for a queue that a FETCH has found', async () => {
    const first = await start({ queueType })
    await first.broker.ensureQueue('email')
    await first.stop()
    await say(EMAIL, 'early')
    await admin.channel.assertQueue('ojs.queue.found')
    const test = await start({ queueType }, { recordedQueues: () => ['email'] })
    await test.recorder.until('onControl', 1, 'early')
    const signal = new AbortController().signal
    const wanted = { queues: ['found'], count: 1, waitMs: 0, hasClaimable: () => false, signal }
    await test.broker.take(wanted)
    await test.recorder.until('onQueueFound', 1, 'found')
    await expect
      .poll(() => depth('ojs.queue.control.found').catch(() => null))
      .toEqual({ messageCount: 0, consumerCount: 1 })
  })

  it('are read by the gateway that came last, while an earlier one stands still', async () => {
    const shared = { queueType, ledgerId: 'shared' }
    const earlier = await start(shared)
    const { now, wall } = systemClock()
    const later = await start(shared, {}, { clock: { now: () => now() + 10_000, wall } })
    await expect.poll(() => depth(DEFAULT)).toMatchObject({ consumerCount: 2 })
    for (let i = 0; i < 10; i++) await say(DEFAULT, 'told')
    await later.recorder.until('onControl', 10, 'told')
    expect(earlier.recorder.all('onControl', 'told')).toEqual([])
  })

  it('are declared and consumed again after they were deleted', async () => {
    const test = await start({ queueType })
    await test.broker.ensureQueue('email')
    for (const queue of [EMAIL, DEFAULT]) {
      await expect.poll(() => depth(queue)).toMatchObject({ consumerCount: 1 })
      await admin.channel.deleteQueue(queue)
      await expect.poll(() => depth(queue).catch(() => null)).toMatchObject({ consumerCount: 1 })
      await say(queue, `after ${queue}`)
      await test.recorder.until('onControl', 1, `after ${queue}`)
    }
  })

  it('are consumed again after a deletion that recheckQueue() repairs', async () => {
    const test = await start({ queueType })
    await test.broker.ensureQueue('email')
    await expect.poll(() => depth(EMAIL)).toMatchObject({ consumerCount: 1 })
    await admin.channel.deleteQueue(EMAIL)
    await test.broker.recheckQueue('email')
    await say(EMAIL, 'again')
    await test.recorder.until('onControl', 1, 'again')
  })
})

describe('control messages', () => {
  it('are handed out in queue order, 32 at a time, and each is settled by itself', async () => {
    const { waiting, onControl, types } = open()
    await start({}, { onControl })
    const sent = Array.from({ length: 40 }, (_, index) => `m${index}`)
    for (const type of sent) await say(DEFAULT, type)
    await expect.poll(types).toEqual(sent.slice(0, 32))
    waiting[5]?.settle()
    waiting[7]?.settle()
    await expect.poll(types).toEqual(sent.slice(0, 34))
    for (const { settle } of waiting) settle()
    await expect.poll(types).toEqual(sent)
    for (const { settle } of waiting) settle()
    await expect.poll(() => depth(DEFAULT)).toMatchObject({ messageCount: 0 })
  })

  it('are handled although those of another queue are stuck', async () => {
    const { onControl, types } = open()
    const test = await start({}, { onControl })
    await test.broker.ensureQueue('email')
    for (let i = 0; i < 32; i++) await say(DEFAULT, 'stuck')
    await expect.poll(() => types().length).toBe(32)
    await say(EMAIL, 'other')
    await expect.poll(types).toContain('other')
    await test.broker.stop(AbortSignal.timeout(100))
  })

  it('are redelivered a second later when handling fails, and dead-lettered when malformed', async () => {
    let calls = 0
    let failedAt = 0
    let againAfterMs = 0
    const onControl = async ({ type, redelivered }: ControlMessage) => {
      calls += 1
      if (type === 'bad') return 'malformed'
      if (calls === 1) {
        failedAt = performance.now()
        throw new Error('disk full')
      }
      if (redelivered) againAfterMs = performance.now() - failedAt
      return 'handled'
    }
    const test = await start({}, { onControl })
    await say(DEFAULT, 'good', { messageId: 'g' })
    await say(DEFAULT, 'bad', { messageId: 'b' })
    await test.recorder.until('onDeadLetter', 1, 'b')
    expect(test.recorder.all('onDeadLetter')[0]?.args[1]).toMatchObject({
      queue: 'default',
      isControl: true,
      reason: 'rejected',
    })
    await expect.poll(() => calls).toBe(3)
    await expect.poll(() => test.recorder.count('acked', 'ojs.queue.control')).toBe(1)
    // Not at once: the cause of the failure may last, and this would become a busy loop.
    expect(againAfterMs).toBeGreaterThan(900)
    expect(test.recorder.count('givenBack', 'ojs.queue.control')).toBe(1)
    await test.stop()
    expect(await depth(DEFAULT)).toMatchObject({ messageCount: 0 })
  })

  it('that are being handled are finished when the broker stops, and no more are taken', async () => {
    const { waiting, onControl, types } = open()
    const test = await start({}, { onControl })
    await say(DEFAULT, 'slow')
    await expect.poll(types).toEqual(['slow'])
    const stopped = test.stop()
    await expect.poll(() => depth(DEFAULT)).toMatchObject({ consumerCount: 0 })
    await say(DEFAULT, 'late')
    waiting[0]?.settle()
    await stopped
    expect(await admin.takeAll(DEFAULT)).toHaveLength(1)
    expect(types()).toEqual(['slow'])
  })

  it('that are being handled delay the stop, and no queue is declared meanwhile', async () => {
    const { waiting, onControl, types } = open()
    const test = await start({}, { onControl })
    await say(DEFAULT, 'slow')
    await expect.poll(types).toEqual(['slow'])
    const stopped = test.stop()
    await expect.poll(() => test.broker.gauges().connectionsActive).toBe(2)
    expect(await test.broker.ensureQueue('email')).toBe('unavailable')
    waiting[0]?.settle()
    await stopped
    expect(test.recorder.count('acked', 'ojs.queue.control')).toBe(1)
  })

  it('are never settled on another connection than their own', async () => {
    const { waiting, onControl, types } = open()
    const test = await start({}, { onControl })
    await say(DEFAULT, 'a')
    await expect.poll(types).toEqual(['a'])
    await vhost.closeConnections()
    await expect.poll(types).toEqual(['a', 'a'])
    await reconnectAdmin()
    waiting[0]?.settle()
    await say(DEFAULT, 'b')
    await expect.poll(types).toEqual(['a', 'a', 'b'])
    expect(test.recorder.count('acked', 'ojs.queue.control')).toBe(0)
    waiting[1]?.settle()
    waiting[2]?.settle()
    await expect.poll(() => test.recorder.count('acked', 'ojs.queue.control')).toBe(2)
  })

  it('are consumed only by the gateway that owns the broker', async () => {
    const first = await start()
    const second = await start()
    await say(DEFAULT, 'a')
    await first.recorder.until('onControl', 1, 'a')
    await expect.poll(() => depth(DEFAULT)).toMatchObject({ consumerCount: 1 })
    expect(second.broker.controlBacklogConsumed()).toBe(false)
    await first.stop()
    await say(DEFAULT, 'b')
    await second.recorder.until('onControl', 1, 'b')
    expect(controlTypes(second)).toEqual(['b'])
  })

  it('arrive through names with the prefix, and show their queue without it', async () => {
    const test = await start({ prefix: 'tenant1' })
    await say(DEFAULT, 'a', {}, 'tenant1.')
    await test.recorder.until('onControl', 1, 'a')
    expect(messageOf(test, 'a')).toMatchObject({ queue: 'default' })
  })

  it.each(['ojs.queue.email', 'tenant2.ojs.queue.email', 'x\n'])(
    'have no replyTo when the sent one is %j',
    async (replyTo) => {
      const test = await start()
      await say(DEFAULT, 'a', { replyTo, type: undefined })
      await test.recorder.until('onControl')
      expect(messageOf(test, '')).toMatchObject({ type: '', replyTo: null })
    },
  )

  it('are consumed when the operator declares the queue late (declare: never)', async () => {
    const other = await connectAdmin(vhost.url)
    const test = await start({ declare: 'never' })
    await other.channel.assertExchange('ojs.exchange.direct', 'direct')
    await other.channel.assertQueue(DEFAULT)
    await other.channel.bindQueue(DEFAULT, 'ojs.exchange.direct', DEFAULT)
    await say(DEFAULT, 'a')
    await test.recorder.until('onControl', 1, 'a')
    await other.close()
  })
})

describe('a control queue that cannot be checked for a moment', () => {
  it('keeps its consumer, and gets no second one', async () => {
    await admin.channel.assertQueue(EMAIL)
    const connection = await startConnection(vhost.url, { name: 'consume' })
    const recorder = new Recorder()
    const consumer = new ControlConsumer({
      connection,
      denials: newDenials(),
      names: createNames(''),
      clock: systemClock(),
      logger,
      observer: recorder.observer,
      random: () => 0,
      instance: 'test',
      mayConsume: () => true,
      onControl: async ({ type }) => {
        recorder.note('onControl', type)
        return 'handled'
      },
      onQueueGone() {},
      onBacklogConsumed() {},
    })
    consumer.queueReady('email')
    consumer.resume()
    await expect.poll(() => depth(EMAIL)).toMatchObject({ consumerCount: 1 })
    const asked = vi.spyOn(connection, 'openChannel')
    asked.mockRejectedValueOnce(new Error('No channels left to allocate'))
    consumer.queueReady('email')
    // The first check fails, and a second one follows a little later.
    await expect.poll(() => asked.mock.settledResults.length).toBeGreaterThan(1)
    admin.channel.sendToQueue(EMAIL, Buffer.from('{}'), { type: 'after' })
    await recorder.until('onControl', 1, 'after')
    expect(await depth(EMAIL)).toMatchObject({ consumerCount: 1 })
    await consumer.stop()
    await connection.close()
  })
})

describe('the backlog of the control queues', () => {
  it('is consumed when the messages that lay there at the start are settled', async () => {
    const first = await start()
    await expect.poll(() => first.broker.controlBacklogConsumed()).toBe(true)
    await first.broker.ensureQueue('email')
    await first.stop()
    expect(first.broker.controlBacklogConsumed()).toBe(false)
    for (const type of ['a', 'b', 'c']) await say(EMAIL, type)
    const { waiting, onControl, types } = open()
    const test = await start({}, { onControl, recordedQueues: () => ['email'] })
    await expect.poll(types).toEqual(['a', 'b', 'c'])
    waiting[0]?.settle()
    waiting[2]?.settle()
    await expect.poll(() => test.recorder.count('acked', 'ojs.queue.control')).toBe(2)
    expect(test.broker.controlBacklogConsumed()).toBe(false)
    waiting[1]?.settle()
    await expect.poll(() => test.broker.controlBacklogConsumed()).toBe(true)
    await say(EMAIL, 'd')
    await expect.poll(types).toHaveLength(4)
    expect(test.broker.controlBacklogConsumed()).toBe(true)
    waiting[3]?.settle()
  })

  it('has what another gateway was given that stands still, until RabbitMQ gives it up', async () => {
    const first = await start()
    await first.broker.ensureQueue('email')
    await first.stop()
    const still = await scratch(admin)
    let taken = 0
    await still.consume(EMAIL, () => {
      taken += 1
    })
    await say(EMAIL, REPORT)
    await expect.poll(() => taken).toBe(1)
    const { waiting, onControl, types } = open()
    const test = await start({}, { onControl, recordedQueues: () => ['email'] })
    await expect.poll(() => depth(EMAIL)).toEqual({ messageCount: 0, consumerCount: 2 })
    // Longer than until it is looked at again.
    await sleep(1_500)
    expect(test.broker.controlBacklogConsumed()).toBe(false)
    expect(['email', 'other'].map((queue) => test.broker.mayReportsReturn(queue))).toEqual([
      true,
      false,
    ])
    await still.close()
    await expect.poll(types).toEqual([REPORT])
    await sleep(1_500)
    expect(test.broker.mayReportsReturn('email')).toBe(true)
    expect(test.broker.controlBacklogConsumed()).toBe(false)
    waiting[0]?.settle()
    await expect.poll(() => test.broker.controlBacklogConsumed()).toBe(true)
    expect(test.broker.mayReportsReturn('email')).toBe(false)
  })

  it('is caught up with when what workers have reported by then is settled', async () => {
    const { waiting, onControl, types } = open()
    const { broker } = await start({}, { onControl })
    for (const queue of ['email', 'other']) await broker.ensureQueue(queue)
    await expect.poll(() => broker.controlBacklogConsumed()).toBe(true)
    // More than are handled at the same time.
    for (let i = 0; i < 40; i++) await say(EMAIL, REPORT)
    await expect.poll(types).toHaveLength(32)
    let isOver = false
    const caughtUp = broker.catchUp(['email', 'other', 'none']).then((isCaughtUp) => {
      isOver = true
      return isCaughtUp
    })
    for (let i = 0; i < 40; i++) {
      await expect.poll(() => waiting.length).toBeGreaterThan(i)
      expect(isOver).toBe(false)
      waiting[i]?.settle()
    }
    expect(await caughtUp).toBe(true)
    await say(EMAIL, REPORT)
    await expect.poll(() => waiting.length).toBe(41)
    // Not forever.
    expect(await broker.catchUp(['other', 'email'])).toBe(false)
    waiting[40]?.settle()
  })

  it('is not consumed after a reconnect until it was counted again', async () => {
    const atUp: unknown[] = []
    const onConsumeUp = async () => {
      atUp.push(test?.broker.controlBacklogConsumed())
    }
    let test: TestBroker | undefined
    test = await start({}, { onConsumeUp })
    const { broker } = test
    await broker.ensureQueue('email')
    await expect.poll(() => broker.controlBacklogConsumed()).toBe(true)
    await vhost.closeConnections()
    await expect.poll(() => atUp).toEqual([undefined, false])
    await expect.poll(() => broker.controlBacklogConsumed()).toBe(true)
    await reconnectAdmin()
  })

  it('counts as consumed when the queue is gone', async () => {
    const test = await start(
      {},
      { recordedQueues: () => ['gone'], onQueueMissing: async () => 'leave' },
    )
    await expect.poll(() => test.broker.controlBacklogConsumed()).toBe(true)
  })

  it('is handled before onQueueMissing is called for a missing job queue', async () => {
    const order: string[] = []
    const hooks: Partial<AllHooks> = {
      onControl: async ({ type }) => {
        await sleep(200)
        order.push(type)
        return 'handled'
      },
      onQueueMissing: async () => {
        order.push('missing')
        return 'declare'
      },
    }
    // The clock stands still, because the queue would wait for some seconds only on a slow machine.
    await startWithoutJobQueue(hooks, { clock: { ...systemClock(), now: () => 0 } })
    expect(order).toEqual([REPORT, REPORT, 'missing'])
  })

  it('delays the recovery of a missing job queue for some seconds only', async () => {
    const { onControl, types, waiting } = open()
    const test = await startWithoutJobQueue({ onControl })
    expect(test.recorder.count('onQueueMissing', 'email')).toBe(1)
    // The reports may arrive after the queue was recovered.
    await expect.poll(types).toEqual([REPORT, REPORT])
    for (const { settle } of waiting) settle()
  })

  /** Starts with two reports in the control queue of `email` and no job queue; resolves when it is back. */
  async function startWithoutJobQueue(
    hooks: Partial<AllHooks>,
    deps?: Partial<BrokerDeps>,
  ): Promise<TestBroker> {
    const first = await start()
    await first.broker.ensureQueue('email')
    await first.stop()
    for (const type of [REPORT, REPORT]) await say(EMAIL, type)
    await admin.channel.deleteQueue('ojs.queue.email')
    const test = await start({}, { recordedQueues: () => ['email'], ...hooks }, deps)
    expect(await test.broker.ensureQueue('email')).toBe('ready')
    return test
  }
})
