import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { DeadLetter } from '../../src/broker/broker.ts'
import { vhostOfTest } from './fixtures.ts'
import { newIds, request, row, scratch, type TestBroker } from './harness.ts'

const DEAD_LETTERS = 'ojs.system.dead-letters'

const { vhost, admin, start, reconnectAdmin } = vhostOfTest()
let dir = ''

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'ojs-dead-letters-'))
})
afterAll(() => rmSync(dir, { recursive: true }))

async function letterFor({ recorder }: TestBroker, id: string): Promise<DeadLetter> {
  await recorder.until('onDeadLetter', 1, id)
  const [seen] = recorder.all('onDeadLetter', id)
  return seen?.args[1] as DeadLetter
}

async function waitingLetters(): Promise<number> {
  return (await admin.channel.checkQueue(DEAD_LETTERS)).messageCount
}

async function consumerCount(): Promise<number> {
  return (await admin.channel.checkQueue(DEAD_LETTERS)).consumerCount
}

function consumers({ broker }: TestBroker) {
  return broker.gauges().consumers.filter(({ queue }) => queue === DEAD_LETTERS)
}

/** The shipped topology with settings for single queues. */
function topologyWith(queues: object): string {
  const shipped = new URL('../../topology/topology.json', import.meta.url)
  const content: object = JSON.parse(readFileSync(shipped, 'utf8'))
  const file = join(dir, 'topology.json')
  writeFileSync(file, JSON.stringify({ ...content, queues }))
  return file
}

/** Rejects the next message as a native worker does. */
async function nackNatively(queue: string): Promise<void> {
  const message = await admin.channel.get(queue)
  if (message === false) throw new Error(`${queue} is empty`)
  admin.channel.nack(message, false, false)
}

describe.each(['classic', 'quorum'] as const)(
  'a job that RabbitMQ dead-letters, profile %s',
  (queueType) => {
    it('is reported with its queue, attempt and generation after a reject: rejected', async () => {
      const test = await start({ queueType })
      await test.broker.ensureQueue('email')
      const job = row({}, { attempt: 2, generation: 3 })
      await test.broker.publish(job)
      await nackNatively('ojs.queue.email')
      const letter = await letterFor(test, job.id)
      expect(letter).toMatchObject({
        queue: 'email',
        reason: 'rejected',
        isControl: false,
        attempt: 3,
        generation: 3,
        maxAttempts: 3,
      })
      expect(letter.message.properties.messageId).toBe(job.id)
      expect(letter.carry()).toEqual({})
      await expect.poll(waitingLetters).toBe(0)
      expect(await admin.takeAll('ojs.queue.dlx.email')).toEqual([job.id])
      expect(consumers(test)).toMatchObject([{ queue: DEAD_LETTERS, unacked: 0 }])
      // The consumed and acked counters are of the clients' queues, not of system queues.
      expect(test.recorder.all('consumed')).toEqual([])
      expect(test.recorder.all('acked')).toEqual([])
    })

    it('is reported after the TTL of its queue as expired, and over the length limit as maxlen', async () => {
      const overflow = 'drop-head'
      const topologyPath = topologyWith({
        short: { messageTtlMs: 50 },
        small: { maxLength: 1, overflow },
      })
      const test = await start({ queueType, topologyPath, prefix: 'tenant1' })
      await test.broker.ensureQueue('short')
      await test.broker.ensureQueue('small')
      const expired = row({ queue: 'short' })
      await test.broker.publish(expired)
      const letter = await letterFor(test, expired.id)
      expect(letter).toMatchObject({ queue: 'short', reason: 'expired', attempt: 1 })
      const [first, second] = [row({ queue: 'small' }), row({ queue: 'small' })]
      await test.broker.publish(first)
      await test.broker.publish(second)
      expect(await letterFor(test, first.id)).toMatchObject({ queue: 'small', reason: 'maxlen' })
      expect(test.recorder.count('onDeadLetter', second.id)).toBe(0)
    })

    it('is reported after a retry with its last death, not with that in its retry queue', async () => {
      const test = await start({ queueType })
      const { broker } = test
      await broker.ensureRetryQueue('email', 125)
      const job = row({}, { state: 'retryable', retryQueueMs: 125, attempt: 1 })
      await broker.publish(job)
      await expect
        .poll(() => admin.channel.checkQueue('ojs.queue.email'))
        .toMatchObject({ messageCount: 1 })
      await nackNatively('ojs.queue.email')
      expect(await letterFor(test, job.id)).toMatchObject({
        queue: 'email',
        reason: 'rejected',
        attempt: 2,
      })
    })
  },
)

it('a message over the delivery limit is reported as delivery_limit', async () => {
  await admin.channel.assertExchange('ojs.exchange.dlx', 'direct')
  await admin.channel.assertExchange('ojs.exchange.direct', 'direct')
  await admin.channel.assertQueue('ojs.queue.email', {
    arguments: {
      'x-queue-type': 'quorum',
      'x-dead-letter-exchange': 'ojs.exchange.dlx',
      'x-dead-letter-routing-key': 'email',
      'x-delivery-limit': 1,
    },
  })
  const test = await start()
  await test.broker.ensureQueue('email')
  const job = row()
  await test.broker.publish(job)
  for (let i = 0; i < 2; i++) {
    // Channels that close without settling: RabbitMQ 4.3 does not count a message that is given back.
    const channel = await scratch(admin)
    if (!(await channel.get('ojs.queue.email'))) throw new Error('it died too early')
    await channel.close()
  }
  expect(await letterFor(test, job.id)).toMatchObject({ queue: 'email', reason: 'delivery_limit' })
})

describe('onDeadLetter', () => {
  it('is called for a malformed control message with isControl', async () => {
    const test = await start({ prefix: 'tenant1' }, { onControl: async () => 'malformed' })
    await test.broker.ensureQueue('email')
    await admin.publish('tenant1.ojs.queue.control.email', ['c-1'])
    expect(await letterFor(test, 'c-1')).toMatchObject({
      queue: 'email',
      isControl: true,
      reason: 'rejected',
    })
  })

  it('is called for a message published to the exchange by hand with reason unknown, whatever its x-death', async () => {
    const test = await start()
    await test.broker.ensureQueue('email')
    const deaths = [[], 'x', [null], [{ reason: 7, queue: 8 }], [{ reason: 'x', queue: 'other' }]]
    for (const [i, death] of deaths.entries()) {
      const headers = { 'x-death': death }
      const properties = { messageId: `h-${i}`, headers }
      admin.channel.publish('ojs.exchange.dlx', 'email', Buffer.from('{}'), properties)
    }
    for (const i of deaths.keys()) {
      const letter = await letterFor(test, `h-${i}`)
      expect(letter).toMatchObject({ queue: 'email', reason: 'unknown', isControl: false })
    }
  })

  it('is called for the copy that we publish of a discarded job, with its last attempt', async () => {
    const test = await start()
    await test.broker.ensureQueue('email')
    const job = row({}, { state: 'discarded', attempt: 2 })
    expect(await test.broker.publish(job)).toBe('confirmed')
    expect(await letterFor(test, job.id)).toMatchObject({ reason: 'unknown', attempt: 2 })
    const never = row({}, { state: 'discarded', attempt: 0, retryQueueMs: 125 })
    expect(await test.broker.publish(never)).toBe('confirmed')
    expect(await letterFor(test, never.id)).toMatchObject({ reason: 'unknown', attempt: 1 })
    expect(await admin.takeAll('ojs.queue.dlx.email')).toEqual([job.id, never.id])
    expect(await admin.takeAll('ojs.queue.email')).toEqual([])
    await admin.channel.deleteQueue('ojs.queue.dlx.email')
    await admin.channel.unbindQueue(DEAD_LETTERS, 'ojs.exchange.dlx', 'email')
    expect(await test.broker.publish(job)).toBe('returned')
    await expect.poll(() => test.broker.publish(job)).toBe('confirmed')
    expect(await admin.takeAll('ojs.queue.dlx.email')).toEqual([job.id])
  })
})

describe('the dead letter consumer', () => {
  it('retries a letter that could not be handled, about a second later', async () => {
    const seen: { id: string; at: number }[] = []
    const test = await start(
      {},
      {
        onDeadLetter: async ({ id }) => {
          seen.push({ id, at: performance.now() })
          if (seen.filter((one) => one.id === id).length < 3) throw new Error('disk full')
        },
      },
    )
    await admin.publish(DEAD_LETTERS, ['a', 'b'])
    await expect.poll(() => seen.length).toBe(6)
    const ofA = seen.filter(({ id }) => id === 'a').map(({ at }) => at)
    expect((ofA[1] ?? 0) - (ofA[0] ?? 0)).toBeGreaterThan(900)
    await expect.poll(() => consumers(test)).toMatchObject([{ unacked: 0 }])
    await test.stop()
    expect(await waitingLetters()).toBe(0)
  })

  it('handles 64 letters at the same time, and acknowledges each by itself', async () => {
    const open = new Map<string, () => void>()
    const test = await start(
      {},
      {
        onDeadLetter: ({ id }) =>
          new Promise((resolve) => {
            open.set(id, resolve)
          }),
      },
    )
    const ids = newIds(70)
    await admin.publish(DEAD_LETTERS, ids)
    await expect.poll(() => open.size).toBe(64)
    expect(consumers(test)).toMatchObject([{ unacked: 64 }])
    open.get(String(ids[5]))?.()
    await expect.poll(() => open.size).toBe(65)
    expect(open.has(String(ids[64]))).toBe(true)
    for (const settle of open.values()) settle()
    await expect.poll(() => open.size).toBe(70)
    for (const settle of open.values()) settle()
    await expect.poll(() => consumers(test)).toMatchObject([{ unacked: 0 }])
  })

  it('finishes the letter under way when the broker stops, and takes no more', async () => {
    let settle = null as (() => void) | null
    const test = await start(
      {},
      {
        onDeadLetter: ({ id }) =>
          id === 'slow'
            ? new Promise((resolve) => {
                settle = resolve
              })
            : Promise.reject(new Error('disk full')),
      },
    )
    await admin.publish(DEAD_LETTERS, ['refused', 'slow'])
    await expect.poll(() => settle).not.toBe(null)
    const stopped = test.broker.stop(AbortSignal.timeout(10_000))
    await admin.publish(DEAD_LETTERS, ['late'])
    settle?.()
    await stopped
    await expect.poll(waitingLetters).toBe(2)
    expect(new Set(await admin.takeAll(DEAD_LETTERS))).toEqual(new Set(['refused', 'late']))
  })

  it('lets the stop end at its deadline, and leaves the letter in its queue', async () => {
    const test = await start({}, { onDeadLetter: () => new Promise(() => {}) })
    await admin.publish(DEAD_LETTERS, ['stuck'])
    await expect.poll(() => consumers(test)).toMatchObject([{ unacked: 1 }])
    await test.broker.stop(AbortSignal.timeout(100))
    await expect.poll(() => admin.takeAll(DEAD_LETTERS)).toEqual(['stuck'])
  })

  it('comes back with the connection, and settles nothing of the old one', async () => {
    const settle: (() => void)[] = []
    const onDeadLetter = () => new Promise<void>((resolve) => settle.push(resolve))
    const test = await start({}, { onDeadLetter })
    await admin.publish(DEAD_LETTERS, ['a'])
    await expect.poll(() => settle.length).toBe(1)
    await vhost.closeConnections()
    await expect.poll(() => settle.length).toBe(2)
    settle[0]?.()
    expect(consumers(test)).toMatchObject([{ unacked: 1 }])
    settle[1]?.()
    await expect.poll(() => consumers(test)).toMatchObject([{ unacked: 0 }])
    await reconnectAdmin()
    await test.stop()
    expect(await waitingLetters()).toBe(0)
  })

  it('comes back after its queue was deleted, and the queue is declared and bound again', async () => {
    const test = await start()
    await test.broker.ensureQueue('email')
    await expect.poll(consumerCount).toBe(1)
    await admin.channel.deleteQueue(DEAD_LETTERS)
    await expect.poll(() => vhost.queue(DEAD_LETTERS)).toBeDefined()
    await expect.poll(() => test.broker.isDeclared('email')).toBe(true)
    // The queue is bound a little after it is declared; a letter in between reaches only its job queue's own.
    await expect
      .poll(async () => {
        await test.broker.publish(row())
        await nackNatively('ojs.queue.email')
        return test.recorder.count('onDeadLetter')
      })
      .toBeGreaterThan(0)
    expect(test.recorder.all('onDeadLetter')[0]?.args[1]).toMatchObject({ reason: 'rejected' })
  })

  it('runs only in the gateway that owns the broker', async () => {
    const first = await start()
    const second = await start()
    expect(second.broker.status()).toMatchObject({ state: 'foreign' })
    await admin.publish(DEAD_LETTERS, ['a'])
    await first.recorder.until('onDeadLetter', 1, 'a')
    expect(await consumerCount()).toBe(1)
    expect(second.broker.gauges().consumers).toEqual([])
    expect(await second.broker.sweepDeadLetters('email', 10, async () => true)).toBe(null)
    await first.stop()
    await admin.publish(DEAD_LETTERS, ['b'])
    await second.recorder.until('onDeadLetter', 1, 'b')
  })

  it('does not disturb the deliveries of the job queues', async () => {
    const test = await start({}, { onDeadLetter: () => new Promise(() => {}) })
    await test.broker.ensureQueue('email')
    await admin.publish(DEAD_LETTERS, newIds(100))
    const job = row()
    await test.broker.publish(job)
    const [delivery] = await test.broker.take(request(['email']))
    expect(delivery?.id).toBe(job.id)
    delivery?.ack()
    await test.broker.stop(AbortSignal.timeout(200))
  })
})
