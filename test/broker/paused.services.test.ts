import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { vhostForAll } from '../support/broker/rabbit.ts'
import { adminForAll, brokersOfTest } from './fixtures.ts'
import { idsOf, request, row, type TestBroker } from './harness.ts'

const vhost = vhostForAll()
const admin = adminForAll(vhost)
const startAt = brokersOfTest()
let queues = 0

describe.each(['classic', 'quorum'] as const)('a paused queue, profile %s', (queueType) => {
  /** A queue with `count` jobs: the first one was taken, the others are buffered. */
  async function buffered(count: number) {
    queues += 1
    const queue = `paused-${queues}`
    const paused = new Set<string>()
    // No consumer is cancelled for being idle during a test.
    const hooks = { isPaused: (name: string) => paused.has(name) }
    const test = await startAt(vhost.url, { queueType, idleMs: 600_000 }, hooks)
    expect(await test.broker.ensureQueue(queue)).toBe('ready')
    const rows = Array.from({ length: count }, () => row({ queue }))
    for (const job of rows) expect(await test.broker.publish(job)).toBe('confirmed')
    const [first] = await test.broker.take(request([queue]))
    await test.recorder.until('consumed', count, queue)
    const set = (isPaused: boolean) => {
      if (isPaused) paused.add(queue)
      else paused.delete(queue)
    }
    return { ...test, test, queue, first, set, ids: rows.map(({ id }) => id) }
  }
  const bufferedIn = ({ broker }: TestBroker, queue: string) =>
    broker.gauges().queues.find((gauge) => gauge.queue === queue)?.buffered ?? 0
  const ready = async (queue: string) =>
    (await admin.channel.checkQueue(`ojs.queue.${queue}`)).messageCount

  it('hands out nothing from the moment it is paused, buffered or not', async () => {
    const { broker, queue, set, ids, test } = await buffered(3)
    set(true)
    const hasClaimable = () => true
    const taking = broker.take(request([queue], { waitMs: 0, hasClaimable }))
    // No delivery can come, so the fetch has nothing to wait for.
    expect(await Promise.race([taking, nextTurn('later')])).toEqual([])
    expect(bufferedIn(test, queue)).toBe(2)
    set(false)
    expect(idsOf(await broker.take(request([queue], { count: 5 })))).toEqual(ids.slice(1))
  })

  it('gives its buffered deliveries back to RabbitMQ on pauseChanged(), and keeps leased ones', async () => {
    const { broker, queue, set, ids, first, test } = await buffered(4)
    set(true)
    broker.pauseChanged(queue)
    await expect.poll(() => ready(queue)).toBe(3)
    expect(bufferedIn(test, queue)).toBe(0)
    expect(first?.ack()).toBe('settled')
    set(false)
    broker.pauseChanged(queue)
    const seen: string[] = []
    while (seen.length < 3) seen.push(...idsOf(await broker.take(request([queue]))))
    expect(seen).toEqual(ids.slice(1))
  })

  it('gives deliveries back to RabbitMQ that are put back or unparked meanwhile', async () => {
    const { broker, queue, set, ids, first } = await buffered(2)
    const [second] = await broker.take(request([queue]))
    if (!first || !second) throw new Error('two jobs were published')
    broker.park(second, null)
    set(true)
    broker.pauseChanged(queue)
    broker.putBack([first])
    await expect.poll(() => ready(queue)).toBe(1)
    broker.unpark(second.id)
    await expect.poll(() => ready(queue)).toBe(2)
    set(false)
    broker.pauseChanged(queue)
    const seen: string[] = []
    while (seen.length < 2) seen.push(...idsOf(await broker.take(request([queue]))))
    expect(seen.length).toBe(ids.length)
  })

  it('appears in the gauges only while a fetch waits for it, when none of its deliveries is held', async () => {
    const { broker, queue, set, first } = await buffered(1)
    expect(first?.ack()).toBe('settled')
    set(true)
    broker.pauseChanged(queue)
    const isShown = () => broker.gauges().queues.find((gauge) => gauge.queue === queue)
    await expect.poll(isShown).toBeUndefined()
    const waiting = new AbortController()
    const { signal } = waiting
    const taking = broker.take(request([queue], { waitMs: 30_000, signal }))
    expect(isShown()).toEqual({ queue, buffered: 0, waiters: 1, utilization: 0 })
    waiting.abort()
    expect(await taking).toEqual([])
    expect(isShown()).toBeUndefined()
  })

  it('does not hold up a fetch that names another queue behind it', async () => {
    const { broker, queue, set } = await buffered(2)
    const other = `other-${queue}`
    expect(await broker.ensureQueue(other)).toBe('ready')
    set(true)
    broker.pauseChanged(queue)
    const hasClaimable = () => true
    const waiting = broker.take(request([queue, other], { hasClaimable }))
    const job = row({ queue: other })
    expect(await broker.publish(job)).toBe('confirmed')
    expect(idsOf(await waiting)).toEqual([job.id])
  })
})
