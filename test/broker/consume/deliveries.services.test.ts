import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Delivery, TakeRequest } from '../../../src/broker/broker.ts'
import type { BrokerDeps, BrokerOptions } from '../../../src/broker/options.ts'
import { systemClock } from '../../../src/clock.ts'
import { vhostForAll } from '../../support/broker/rabbit.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { leastOfThree } from '../../support/time/stopwatch.ts'
import { brokersOfTest } from '../fixtures.ts'
import {
  type Admin,
  connectAdmin,
  idsOf,
  newIds,
  request,
  row,
  type TestBroker,
} from '../harness.ts'

/** Class and method, as AMQP frames begin. */
const BASIC_DELIVER = Buffer.from([0, 60, 0, 60])

const vhost = vhostForAll()
let admin: Admin
const startAt = brokersOfTest()
let queues = 0

beforeAll(async () => {
  admin = await connectAdmin(vhost.url)
})
afterAll(() => admin.close())

function start(given: Partial<BrokerOptions> = {}, deps: Partial<BrokerDeps> = {}) {
  // No consumer is cancelled for being idle, unless the test says so.
  return startAt(vhost.url, { idleMs: 600_000, ...given }, {}, deps)
}

/** Has the broker under test declare a new queue. */
async function newQueue({ broker }: TestBroker): Promise<string> {
  queues += 1
  const queue = `q${queues}`
  expect(await broker.ensureQueue(queue)).toBe('ready')
  return queue
}

async function publish({ broker }: TestBroker, queue: string, count: number): Promise<string[]> {
  const rows = Array.from({ length: count }, () => row({ queue }))
  const outcomes = await Promise.all(rows.map((job) => broker.publish(job)))
  expect(new Set(outcomes)).toEqual(new Set(['confirmed']))
  return rows.map(({ id }) => id)
}

/** A broker whose deliveries the test can delay, and whose clock stands still. */
async function startBehindProxy() {
  let consuming = 0
  const proxy = await TcpProxy.start(vhost.url, (connection, direction, chunk) => {
    if (direction === 'to-gateway' && chunk.includes(BASIC_DELIVER)) consuming = connection
  })
  const options = { idleMs: 600_000 }
  const test = await startAt(proxy.url, options, {}, { clock: { ...systemClock(), now: () => 0 } })
  return {
    test,
    lagDeliveries: () => proxy.lag(consuming, 20),
    stopProxy: async () => {
      await test.stop()
      await proxy.stop()
    },
  }
}

/** Makes every queue have a consumer that has delivered. */
async function warmUp(test: TestBroker, queues: string[]): Promise<void> {
  for (const queue of queues) {
    await publish(test, queue, 1)
    for (const delivery of await test.broker.take(request([queue]))) delivery.ack()
  }
}

/** Takes one delivery after the other until there are `count`. */
async function takeEach({ broker }: TestBroker, queue: string, count: number): Promise<Delivery[]> {
  const taken: Delivery[] = []
  while (taken.length < count) {
    const [delivery] = await broker.take(request([queue]))
    if (!delivery) throw new Error(`only ${taken.length} of ${count} came`)
    taken.push(delivery)
  }
  return taken
}

/**
 * A fetch with `waitMs` 0, which waits for up to 250 ms for messages that are on their way. A busy machine
 * may deliver later; then the fetch must have waited that long, and a second one takes them.
 */
async function takeWithoutWaiting(
  { broker }: TestBroker,
  queues: string[],
  given: Partial<TakeRequest> = {},
): Promise<Delivery[]> {
  const before = performance.now()
  const taken = await broker.take(request(queues, { waitMs: 0, count: 5, ...given }))
  if (taken.length > 0) return [...taken]
  expect(performance.now() - before).toBeGreaterThan(240)
  return [...(await broker.take(request(queues, { count: 5 })))]
}

/** Fetches in the same turn in which delivery number `count` arrives. */
async function fetchAtDelivery(test: TestBroker, queue: string, count: number) {
  const published = publish(test, queue, 1)
  await test.recorder.until('consumed', count, queue)
  // Without a timer: only what happens in the same turn has happened.
  for (let i = 0; i < 10; i++) await Promise.resolve()
  const taken = await test.broker.take(request([queue], { waitMs: 0 }))
  await published
  // The first fetch no longer waits for the rest of its burst: timers of one length fire in their order.
  await sleep(1)
  return taken
}

async function consumerCount(queue: string): Promise<number> {
  return (await admin.channel.checkQueue(`ojs.queue.${queue}`)).consumerCount
}

/** Takes the ready messages once there are `count`: RabbitMQ notices a closed channel a little later. */
async function takeBack(queue: string, count: number): Promise<string[]> {
  const name = `ojs.queue.${queue}`
  await expect
    .poll(async () => (await admin.channel.checkQueue(name)).messageCount)
    .toBeGreaterThanOrEqual(count)
  return admin.takeAll(name)
}

function tagsOf({ broker }: TestBroker, queue: string): string[] {
  const { consumers } = broker.gauges()
  return consumers.filter((gauge) => gauge.queue === queue).map(({ consumer }) => consumer)
}

describe.each(['classic', 'quorum'] as const)('take, profile %s', (queueType) => {
  it('gives messages that arrived together to one fetch, in order', async () => {
    const test = await start({ queueType })
    const queue = await newQueue(test)
    const waiting = test.broker.take(request([queue], { count: 1 }))
    const [first] = await publish(test, queue, 1)
    expect(idsOf(await waiting)).toEqual([first])
    const ids = await publish(test, queue, 20)
    await test.recorder.until('consumed', 21, queue)
    expect(idsOf(await test.broker.take(request([queue], { count: 5 })))).toEqual(ids.slice(0, 5))
    const rest = await test.broker.take(request([queue], { count: 100 }))
    expect(idsOf(rest)).toEqual(ids.slice(5))
  })

  it('gives a fetch as many jobs as it wants and the ledger knows, even if they arrive in parts', async () => {
    // The clock moves only for the fetch that is to time out: the others may take long on a busy machine.
    let now = 0
    let perLook = 0
    const clock = { now: () => (now += perLook), wall: () => Date.now() }
    const test = await start({ queueType, prefetch: 2 }, { clock })
    const queue = await newQueue(test)
    const ids = await publish(test, queue, 9)
    const known = (beyond = 0) => ids.length > beyond
    const wants = { count: 7, hasClaimable: (_: string, beyond?: number) => known(beyond) }
    const taken = await test.broker.take(request([queue], wants))
    expect(idsOf(taken)).toEqual(ids.slice(0, 7))
    // When the ledger claims more than there are, the fetch gets what there is.
    for (const delivery of taken) delivery.ack()
    await test.recorder.until('consumed', ids.length, queue)
    perLook = 1
    const rest = await test.broker.take(request([queue], { ...wants, waitMs: 0 }))
    expect(idsOf(rest)).toEqual(ids.slice(7))
    // The ledger is not asked again and again: the next job is handed out when it arrives. Measured up to
    // three times, because on a busy machine the previous wait may have ended without a last look.
    for (const delivery of rest) delivery.ack()
    const looked = async () => {
      let looks = 0
      const hasClaimable = (_: string, beyond?: number) => known(beyond) && ++looks > 0
      const waiting = test.broker.take(request([queue], { count: 7, hasClaimable }))
      const [next] = await publish(test, queue, 1)
      const got = await waiting
      expect(idsOf(got)).toEqual([next])
      for (const delivery of got) delivery.ack()
      return looks
    }
    expect(await leastOfThree(looked, 10)).toBeLessThan(10)
  })

  it('starts a consumer for a fetch with waitMs 0, and finds a message that was published natively', async () => {
    const test = await start({ queueType })
    const queue = await newQueue(test)
    const [id] = newIds(1)
    await admin.publish(`ojs.queue.${queue}`, [String(id)])
    expect(idsOf(await takeWithoutWaiting(test, [queue]))).toEqual([id])
    // Once the consumer runs and its queue is empty, the answer is immediate.
    const empty = test.broker.take(request([queue], { waitMs: 0 }))
    expect(await Promise.race([empty, nextTurn('later')])).toEqual([])
  })

  it('gives back what nobody fetched for idleMs, in delivery order, and keeps what is leased', async () => {
    let now = 0
    const clock = { now: () => now, wall: () => Date.now() }
    const test = await start({ queueType, idleMs: 300 }, { clock })
    const queue = await newQueue(test)
    const ids = await publish(test, queue, 20)
    const [leased] = await takeEach(test, queue, 1)
    await test.recorder.until('consumed', 20, queue)
    now += 300
    await test.recorder.until('givenBack', 1, queue)
    expect(test.recorder.all('givenBack').map(({ args }) => args[1])).toEqual([19])
    // A quorum queue counts a cancelled consumer until its last delivery is settled.
    if (queueType === 'classic') await expect.poll(() => consumerCount(queue)).toBe(0)
    expect(await takeBack(queue, 19)).toEqual(ids.slice(1))
    expect(tagsOf(test, queue)).toHaveLength(1)
    expect(leased?.isLive()).toBe(true)
    expect(leased?.ack()).toBe('settled')
    expect(tagsOf(test, queue)).toEqual([])
    await expect.poll(() => consumerCount(queue)).toBe(0)
  })

  it('opens another channel when every slot is taken, up to maxConsumerChannels', async () => {
    const test = await start({ queueType, prefetch: 2, maxConsumerChannels: 3 })
    const queue = await newQueue(test)
    const ids = await publish(test, queue, 8)
    const taken = await takeEach(test, queue, 6)
    expect(new Set(idsOf(taken)).size).toBe(6)
    expect(new Set(tagsOf(test, queue)).size).toBe(3)
    expect(await test.broker.take(request([queue], { waitMs: 300 }))).toEqual([])
    expect(taken[0]?.ack()).toBe('settled')
    const more = await takeEach(test, queue, 1)
    expect(new Set([...idsOf(taken), ...idsOf(more)]).size).toBe(7)
    expect(ids).toEqual(expect.arrayContaining(idsOf(more)))
  })

  it('loses its deliveries with the connection; an old handle never settles another job', async () => {
    const test = await start({ queueType })
    const queue = await newQueue(test)
    const [a, b] = await publish(test, queue, 2)
    const old = await takeEach(test, queue, 2)
    await vhost.closeConnections()
    await test.recorder.until('lost', 1, queue)
    expect(old.map((delivery) => delivery.isLive())).toEqual([false, false])
    await test.recorder.until('onUp', 2)
    const again = await takeEach(test, queue, 2)
    expect(new Set(idsOf(again))).toEqual(new Set([a, b]))
    expect(again.every((delivery) => delivery.redelivered)).toBe(true)
    // The delivery tags are the same as before; the channels are not.
    expect(old.map((delivery) => delivery.ack())).toEqual(['lost', 'lost'])
    expect(old.map((delivery) => delivery.deadLetter())).toEqual(['lost', 'lost'])
    expect(again.map((delivery) => delivery.isLive())).toEqual([true, true])
    await test.stop()
    admin = await connectAdmin(vhost.url)
    expect(new Set(await takeBack(queue, 2))).toEqual(new Set([a, b]))
  })

  it('consumes again, with a new tag, after RabbitMQ has cancelled its consumer', async () => {
    const test = await start({ queueType })
    const queue = await newQueue(test)
    await publish(test, queue, 3)
    const [leased] = await takeEach(test, queue, 1)
    const [tag] = tagsOf(test, queue)
    await admin.channel.deleteQueue(`ojs.queue.${queue}`)
    await test.recorder.until('consumerCancelled', 1, queue)
    expect(leased?.ack()).toBe('lost')
    await test.recorder.until('onQueueMissing', 2, queue)
    await expect.poll(() => test.broker.isDeclared(queue)).toBe(true)
    const waiting = test.broker.take(request([queue]))
    const [id] = await publish(test, queue, 1)
    expect(idsOf(await waiting)).toEqual([id])
    expect(tagsOf(test, queue)).toHaveLength(1)
    expect(tagsOf(test, queue)).not.toContain(tag)
  })

  it('sends its acknowledgements before it closes, so that no acknowledged message comes back', async () => {
    const test = await start({ queueType, prefetch: 10 })
    const queue = await newQueue(test)
    const ids = await publish(test, queue, 60)
    const taken = await takeEach(test, queue, 45)
    const kept = taken.splice(0, 5)
    expect(taken.map((delivery) => delivery.ack())).toEqual(taken.map(() => 'settled'))
    await test.stop()
    expect(kept[0]?.ack()).toBe('lost')
    const back = await takeBack(queue, 20)
    const expected = ids.filter((id) => !idsOf(taken).includes(id))
    expect(new Set(back)).toEqual(new Set(expected))
    expect(back).toHaveLength(20)
  })

  it('dead-letters to the queue of seed 002 §4.2', async () => {
    const test = await start({ queueType })
    const queue = await newQueue(test)
    const [id] = await publish(test, queue, 1)
    const [delivery] = await takeEach(test, queue, 1)
    expect(delivery?.deadLetter()).toBe('settled')
    expect(delivery?.ack()).toBe('lost')
    await expect.poll(() => admin.takeAll(`ojs.queue.dlx.${queue}`)).toEqual([id])
    expect(test.recorder.count('deadLettered', queue)).toBe(1)
    expect(test.recorder.count('acked', queue)).toBe(0)
  })
})

it('a queue that was deleted and created again is reported missing', async () => {
  const test = await start({ queueType: 'classic' })
  const queue = await newQueue(test)
  await publish(test, queue, 3)
  await takeEach(test, queue, 1)
  const name = `ojs.queue.${queue}`
  // Both at once, so that the gateway finds the new queue when its consumer is cancelled.
  await Promise.all([admin.channel.deleteQueue(name), admin.channel.assertQueue(name)])
  await test.recorder.until('onQueueMissing', 2, queue)
  await expect.poll(() => test.broker.isDeclared(queue)).toBe(true)
  const waiting = test.broker.take(request([queue]))
  const [id] = await publish(test, queue, 1)
  expect(idsOf(await waiting)).toEqual([id])
})

it('a queue that an administrator has created again is served with declare: never', async () => {
  const before = await start({ queueType: 'classic' })
  const queue = await newQueue(before)
  await before.stop()
  const test = await start({ queueType: 'classic', declare: 'never', queues: [queue] })
  await publish(test, queue, 3)
  await takeEach(test, queue, 1)
  const name = `ojs.queue.${queue}`
  await admin.channel.deleteQueue(name)
  await test.recorder.until('consumerCancelled', 1, queue)
  await expect.poll(() => test.broker.ensureQueue(queue)).toBe('missing')
  // A waiting FETCH looks for the queue as well, and must not use it before onQueueMissing was called.
  const waiting = test.broker.take(request([queue]))
  await admin.channel.assertQueue(name)
  await admin.channel.bindQueue(name, 'ojs.exchange.direct', queue)
  await test.recorder.until('onQueueMissing', 1, queue)
  await expect.poll(() => test.broker.ensureQueue(queue)).toBe('ready')
  const [id] = await publish(test, queue, 1)
  expect(idsOf(await waiting)).toEqual([id])
})

describe('the order of deliveries', () => {
  it('is by exact OJS priority, then by arrival', async () => {
    const test = await start()
    const queue = await newQueue(test)
    const priorities = [0, -5, 50, 9, 3, 20, -100, 50, 0]
    const rows = priorities.map((priority) => {
      const job = row({ queue, priority })
      return { ...job, envelope: JSON.stringify({ id: job.id, priority }) }
    })
    test.broker.putBack(await test.broker.take(request([queue], { waitMs: 1 })))
    for (const job of rows) expect(await test.broker.publish(job)).toBe('confirmed')
    await test.recorder.until('consumed', rows.length, queue)
    const taken = await takeEach(test, queue, rows.length)
    const order = taken.map(({ id }) => rows.findIndex((job) => job.id === id))
    expect(order).toEqual([2, 7, 5, 3, 4, 0, 8, 1, 6])
  })

  it('follows the order of the queues in the request', async () => {
    const test = await start()
    const [low, high] = [await newQueue(test), await newQueue(test)]
    const [a] = await publish(test, low, 1)
    const [b] = await publish(test, high, 1)
    for (const queue of [low, high]) {
      test.broker.putBack(await test.broker.take(request([queue])))
    }
    const taken = await test.broker.take(request([high, low], { count: 2 }))
    expect(idsOf(taken)).toEqual([b, a])
  })

  it('respects messages that were confirmed and have not arrived yet, of this queue and of earlier ones', async () => {
    const { test, lagDeliveries, stopProxy } = await startBehindProxy()
    const [first, second] = [await newQueue(test), await newQueue(test)]
    await warmUp(test, [first, second])
    await warmUp(test, [second])
    lagDeliveries()
    const low = row({ queue: second, priority: -1 })
    await test.broker.publish(low)
    await test.recorder.until('consumed', 3, second)
    const high = row({ queue: second, priority: 1 })
    const earlier = row({ queue: first, priority: -9 })
    const known = { hasClaimable: () => true }

    expect(await test.broker.publish(high)).toBe('confirmed')
    expect(idsOf(await test.broker.take(request([second], known)))).toEqual([high.id])
    expect(await test.broker.publish(earlier)).toBe('confirmed')
    expect(idsOf(await test.broker.take(request([first, second], known)))).toEqual([earlier.id])
    expect(idsOf(await test.broker.take(request([first, second], known)))).toEqual([low.id])
    await stopProxy()
  })

  it('puts a returned delivery before those that arrived after it', async () => {
    const test = await start()
    const queue = await newQueue(test)
    const ids = await publish(test, queue, 3)
    const [first, second] = await takeEach(test, queue, 2)
    if (!first || !second) throw new Error('nothing came')
    await test.recorder.until('consumed', 3, queue)
    test.broker.putBack([second])
    test.broker.putBack([first, first])
    expect(idsOf(await takeEach(test, queue, 3))).toEqual(ids)
    first.ack()
    test.broker.putBack([first])
    expect(await test.broker.take(request([queue], { waitMs: 0 }))).toEqual([])
  })
})

describe('a waiting fetch', () => {
  it('is served before those that came later', async () => {
    const test = await start()
    const queue = await newQueue(test)
    const waiting = Array.from({ length: 10 }, () => test.broker.take(request([queue])))
    const ids = await publish(test, queue, 10)
    expect((await Promise.all(waiting)).map(idsOf)).toEqual(ids.map((id) => [id]))
  })

  it('is passed by a later one no more than once', async () => {
    const test = await start()
    const queue = await newQueue(test)
    await publish(test, queue, 1)
    const leased = await takeEach(test, queue, 1)
    // The first fetch waits a moment for the rest of a burst.
    const first = test.broker.take(request([queue], { count: 2 }))
    const [taken] = await fetchAtDelivery(test, queue, 2)
    const [none] = await fetchAtDelivery(test, queue, 3)
    expect([taken, none]).toEqual([expect.anything(), undefined])
    expect(await first).toHaveLength(1)
    for (const delivery of leased) delivery.ack()
  })

  it('ends with its time, its signal and the broker', async () => {
    const test = await start()
    const queue = await newQueue(test)
    expect(await test.broker.take(request([queue], { waitMs: 20 }))).toEqual([])
    const stop = new AbortController()
    const waiting = test.broker.take(request([queue], { signal: stop.signal }))
    stop.abort()
    expect(await waiting).toEqual([])
    expect(await test.broker.take(request([queue], { signal: stop.signal }))).toEqual([])
    const last = test.broker.take(request([queue]))
    await test.stop()
    expect(await last).toEqual([])
    expect(await test.broker.take(request([queue]))).toEqual([])
  })

  it('waits in spite of waitMs 0 for messages on their way while the ledger knows of claimable jobs', async () => {
    const test = await start()
    const queue = await newQueue(test)
    await publish(test, queue, 1)
    for (const delivery of await test.broker.take(request([queue]))) delivery.ack()
    const waiting = takeWithoutWaiting(test, [queue], { hasClaimable: () => true })
    const [id] = await publish(test, queue, 1)
    expect(idsOf(await waiting)).toEqual([id])
    const before = performance.now()
    const vain = request([queue], { waitMs: 0, hasClaimable: () => true })
    expect(await test.broker.take(vain)).toEqual([])
    const tookMs = performance.now() - before
    expect(tookMs).toBeGreaterThan(200)
    // The wait is bounded; a busy machine may only wake the test late.
    expect(tookMs).toBeLessThan(10_000)
  })

  it('survives a lost connection', async () => {
    const test = await start()
    const queue = await newQueue(test)
    const waiting = test.broker.take(request([queue], { waitMs: 30_000 }))
    await expect.poll(() => consumerCount(queue)).toBe(1)
    await vhost.closeConnections()
    await test.recorder.until('onUp', 2)
    admin = await connectAdmin(vhost.url)
    const [id] = await publish(test, queue, 1)
    expect(idsOf(await waiting)).toEqual([id])
  })
})

describe('a queue that does not exist', () => {
  it('is not declared by a fetch, and not looked up again within a second', async () => {
    let now = 1_000_000
    const test = await start({}, { clock: { now: () => now, wall: () => Date.now() } })
    for (let i = 0; i < 5; i++) {
      expect(await test.broker.take(request(['absent'], { waitMs: 0 }))).toEqual([])
      now += 200
    }
    expect(test.recorder.count('channelError', 'declare', 404)).toBe(1)
    expect(await test.broker.probeQueue('absent')).toBe('missing')
  })

  it('is used as soon as somebody else declares it', async () => {
    const test = await start()
    expect(await test.broker.take(request(['native'], { waitMs: 0 }))).toEqual([])
    await admin.channel.assertQueue('ojs.queue.native')
    await admin.publish('ojs.queue.native', ['n-1'])
    expect(idsOf(await test.broker.take(request(['native'])))).toEqual(['n-1'])
    expect(test.recorder.all('onQueueFound')).toHaveLength(1)
    expect(test.recorder.count('onQueueMissing')).toBe(0)
  })

  it('serves waiting fetches as soon as a PUSH declares it', async () => {
    const test = await start()
    const waiting = test.broker.take(request(['later']))
    await test.recorder.until('channelError', 1, 'declare', 404)
    expect(await test.broker.ensureQueue('later')).toBe('ready')
    const [id] = await publish(test, 'later', 1)
    expect(idsOf(await waiting)).toEqual([id])
  })

  it('does not keep a fetch from the other queues of its list', async () => {
    const test = await start()
    const queue = await newQueue(test)
    const [id] = await publish(test, queue, 1)
    const queuesOfFetch = ['not-there', queue, 'nor-there']
    expect(idsOf(await takeWithoutWaiting(test, queuesOfFetch))).toEqual([id])
  })
})

describe('parking', () => {
  it('keeps a delivery until its time', async () => {
    const test = await start()
    const queue = await newQueue(test)
    const [id] = await publish(test, queue, 1)
    const [delivery] = await takeEach(test, queue, 1)
    if (!delivery) throw new Error('nothing came')
    const until = Date.now() + 300
    test.broker.park(delivery, until)
    expect(idsOf(await test.broker.take(request([queue])))).toEqual([id])
    // Timers and the wall clock differ by a millisecond.
    expect(Date.now()).toBeGreaterThanOrEqual(until - 2)
    expect(delivery.ack()).toBe('settled')
  })

  it('cancels the timer of a delivery that is settled meanwhile', async () => {
    const test = await start({ prefetch: 200 })
    const queue = await newQueue(test)
    await publish(test, queue, 200)
    const taken = await takeEach(test, queue, 200)
    const timers = () =>
      process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
    for (const delivery of taken) test.broker.park(delivery, Date.now() + 3_600_000)
    const parked = timers()
    for (const delivery of taken) expect(delivery.ack()).toBe('settled')
    expect(timers()).toBeLessThanOrEqual(parked - 200)
  })

  it('keeps a delivery until it is unparked, and counts it as in use', async () => {
    const test = await start({ prefetch: 1 })
    const queue = await newQueue(test)
    const [a, b] = await publish(test, queue, 2)
    const [delivery] = await takeEach(test, queue, 1)
    if (!delivery) throw new Error('nothing came')
    test.broker.park(delivery, null)
    // The delivery takes the only slot, so the next one comes through another channel.
    expect(idsOf(await takeEach(test, queue, 1))).toEqual([b])
    test.broker.unpark('another')
    expect(await test.broker.take(request([queue], { waitMs: 50 }))).toEqual([])
    test.broker.unpark(String(a))
    test.broker.unpark(String(a))
    expect(idsOf(await takeEach(test, queue, 1))).toEqual([a])
  })

  it('forgets a delivery that is settled or lost meanwhile', async () => {
    const test = await start()
    const queue = await newQueue(test)
    const ids = await publish(test, queue, 2)
    const [first, second] = await takeEach(test, queue, 2)
    if (!first || !second) throw new Error('nothing came')
    test.broker.park(first, Date.now() + 100)
    test.broker.park(second, null)
    expect(first.ack()).toBe('settled')
    test.broker.unpark(first.id)
    expect(await test.broker.take(request([queue], { waitMs: 200 }))).toEqual([])
    await vhost.closeConnections()
    await test.recorder.until('lost', 1, queue)
    test.broker.unpark(second.id)
    await test.recorder.until('onUp', 2)
    admin = await connectAdmin(vhost.url)
    const again = await takeEach(test, queue, 1)
    expect(idsOf(again)).toEqual([ids[1]])
    expect(again[0]).not.toBe(second)
    expect(await test.broker.take(request([queue], { waitMs: 100 }))).toEqual([])
  })
})

describe('consumers', () => {
  it('stay the same under steady traffic', async () => {
    let now = 0
    const clock = { now: () => now, wall: () => Date.now() }
    const test = await start({ idleMs: 300 }, { clock })
    const queue = await newQueue(test)
    const tags = new Set<string>()
    for (let i = 0; i < 15; i++) {
      now += 100
      const [id] = await publish(test, queue, 1)
      const [delivery] = await takeEach(test, queue, 1)
      expect(delivery?.id).toBe(id)
      delivery?.ack()
      for (const tag of tagsOf(test, queue)) tags.add(tag)
      // Real time, so that the sweep for idle consumers, which runs twice a second, gets its turns.
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    expect(tags.size).toBe(1)
  })

  it('become fewer after a burst, but one stays while somebody fetches', async () => {
    let ahead = 0
    const clock = { now: () => Date.now() + ahead, wall: () => Date.now() }
    const test = await start({ prefetch: 1, idleMs: 2_000 }, { clock })
    const queue = await newQueue(test)
    await publish(test, queue, 5)
    const burst = await takeEach(test, queue, 5)
    expect(tagsOf(test, queue)).toHaveLength(5)
    for (const delivery of burst) delivery.ack()
    const fetches = new AbortController()
    const waiting = test.broker.take(request([queue], { waitMs: 30_000, signal: fetches.signal }))
    const faster = setInterval(() => {
      ahead += 6_000
    }, 500)
    await expect.poll(() => consumerCount(queue), { timeout: 20_000 }).toBe(1)
    clearInterval(faster)
    await expect.poll(() => tagsOf(test, queue)).toHaveLength(1)
    const [id] = await publish(test, queue, 1)
    expect(idsOf(await waiting)).toEqual([id])
  })

  it('are started although more channels than maxConsumerChannels wait for their leases to end', async () => {
    const test = await start({ prefetch: 1, maxConsumerChannels: 2, idleMs: 100 })
    const queue = await newQueue(test)
    const leased: Delivery[] = []
    // Each round leaves a channel that only waits for its lease to end: in the end more than
    // maxConsumerChannels.
    for (let round = 1; round <= 4; round++) {
      await publish(test, queue, 1)
      leased.push(...(await takeEach(test, queue, 1)))
      await expect.poll(() => consumerCount(queue)).toBe(0)
    }
    expect(tagsOf(test, queue)).toHaveLength(4)
    for (const delivery of leased) expect(delivery.ack()).toBe('settled')
    await expect.poll(() => tagsOf(test, queue)).toEqual([])
  })

  it('are not started for a queueConsumer that was given up before its restart was due', async () => {
    let now = 0
    const clock = { now: () => now, wall: () => Date.now() }
    const test = await start({ idleMs: 60_000 }, { clock, random: () => 1 })
    const queue = await newQueue(test)
    expect(await test.broker.take(request([queue], { waitMs: 0 }))).toEqual([])
    await admin.channel.deleteQueue(`ojs.queue.${queue}`)
    await test.recorder.until('consumerCancelled', 1, queue)
    // Its restart is due in 1.25 s; until then nobody fetches, and the queueConsumer is forgotten.
    now += 60_000
    await expect.poll(() => test.broker.gauges().queues).toEqual([])
    await expect.poll(() => test.broker.isDeclared(queue)).toBe(true)
    const fetches = new AbortController()
    const first = test.broker.take(request([queue], { waitMs: 30_000, signal: fetches.signal }))
    await expect.poll(() => consumerCount(queue)).toBe(1)
    // In real time: a consumer that the old queueConsumer started would be there by then.
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    expect(await consumerCount(queue)).toBe(1)
    const [id] = await publish(test, queue, 1)
    expect(idsOf(await first)).toEqual([id])
  })

  it('let native workers be served first with consumerPriority -1', async () => {
    const test = await start({ consumerPriority: -1 })
    const queue = await newQueue(test)
    const fetch = new AbortController()
    const waiting = test.broker.take(request([queue], { waitMs: 30_000, signal: fetch.signal }))
    await expect.poll(() => consumerCount(queue)).toBe(1)
    const native: unknown[] = []
    const channel = await admin.model.createChannel()
    await channel.consume(`ojs.queue.${queue}`, (message) => {
      native.push(message?.properties.messageId)
    })
    const ids = await publish(test, queue, 3)
    await expect.poll(() => native).toEqual(ids)
    fetch.abort()
    expect(await waiting).toEqual([])
    await channel.close()
  })

  it('that RabbitMQ refuses cause a warning, until one is accepted', async () => {
    const test = await start()
    const queue = await newQueue(test)
    const warnings = () => test.broker.warnings()
    const [id] = await publish(test, queue, 1)
    const name = `ojs.queue.${queue}`
    const channel = await admin.model.createChannel()
    const { consumerTag } = await channel.consume(name, () => {}, { exclusive: true })
    expect(await test.broker.take(request([queue], { waitMs: 200 }))).toEqual([])
    // The refusal may come after the end of that wait.
    await expect.poll(warnings).toEqual([
      {
        code: 'access_refused',
        message: expect.stringMatching(/consume queue 'ojs\.queue\.q\d+': .*in exclusive use/),
        details: {
          entity: name,
          action: 'consume queue',
          reason: expect.stringContaining('exclusive'),
        },
      },
    ])
    await channel.cancel(consumerTag)
    await channel.close()
    expect(idsOf(await test.broker.take(request([queue])))).toEqual([id])
    expect(warnings()).toEqual([])
  })

  it('and channels appear in the gauges with their numbers', async () => {
    const test = await start({ prefetch: 4 })
    const queue = await newQueue(test)
    await publish(test, queue, 4)
    await takeEach(test, queue, 1)
    await test.recorder.until('consumed', 4, queue)
    // Publish channels: four for jobs, two for the rest, two of the control plane (broadcasts, answers). Then
    // those of the owner queue, of the dead letters, of due messages, of two control queues and of one consumer
    // channel.
    await expect.poll(() => test.broker.gauges().channelsActive).toBe(14)
    const { consumers, queues: queueConsumers, connectionsActive } = test.broker.gauges()
    expect(consumers).toEqual([
      { queue, consumer: expect.stringContaining(queue), unacked: 4 },
      { queue: 'ojs.system.dead-letters', consumer: expect.any(String), unacked: 0 },
      { queue: 'ojs.system.due', consumer: expect.any(String), unacked: 0 },
      { queue: 'ojs.queue.control', consumer: 'ojs.queue.control', unacked: 0 },
    ])
    expect(queueConsumers).toEqual([{ queue, buffered: 3, waiters: 0, utilization: 0.25 }])
    expect(connectionsActive).toBe(3)
  })
})
