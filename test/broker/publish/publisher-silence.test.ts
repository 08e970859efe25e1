import { afterAll, describe, it } from 'vitest'
import type { Published } from '../fake-peer.ts'
import { closeAll, count, open, outgoing } from '../publish-stage.ts'

/** A timeout that is to run out, but leaves time for other answers before it. */
const SHORT_MS = 4_000

afterAll(closeAll)

// Concurrent, because each of them waits until a timeout.
describe.concurrent('Publisher, against a peer that keeps silent', () => {
  it('answers unknown when no confirm comes, and does not count a late confirm for the next publish', async ({
    expect,
  }) => {
    const { peer, recorder, publisher } = await open(SHORT_MS)
    const first = publisher.send(outgoing('a'))
    expect(publisher.isPublishing('a')).toBe(true)
    expect(await first).toBe('unknown')
    expect(publisher.isPublishing('a')).toBe(false)
    expect(recorder.count('publishUnknown')).toBe(1)

    const again = publisher.send(outgoing('a'))
    const [one, two] = await peer.until(2)
    if (!one || !two) throw new Error('nothing was published')
    // The confirm of the first: it must not count for the second.
    peer.ack(one)
    peer.nack(two)
    expect(await again).toBe('nacked')
    expect(publisher.pending).toBe(0)
  })

  it('answers returned when a return may belong to an earlier publish of the same id', async ({
    expect,
  }) => {
    const { peer, recorder, publisher } = await open(SHORT_MS)
    expect(await publisher.send(outgoing('a'))).toBe('unknown')
    const again = publisher.send(outgoing('a'))
    const [one, two] = await peer.until(2)
    if (!one || !two) throw new Error('nothing was published')
    peer.returnToSender(one)
    peer.ack(two, true)
    expect(await again).toBe('returned')
    expect(recorder.count('onReturned', 'email')).toBe(1)
  })

  it('sends no more than its window without a confirm; the rest waits, and is answered in time', async ({
    expect,
  }) => {
    const { peer, publisher, recorder } = await open(SHORT_MS)
    const sent = Array.from({ length: 1_100 }, (_, i) => publisher.send(outgoing(`id-${i}`)))
    await peer.until(384)
    const [first] = peer.published
    if (!first) throw new Error('nothing was published')
    peer.ack(first)
    await peer.until(385)
    expect(peer.published).toHaveLength(385)
    // Some of those that waited may go out on the next channel in their last milliseconds.
    const { confirmed, unknown = 0, refused = 0 } = count(await Promise.all(sent))
    expect({ confirmed, others: unknown + refused }).toEqual({ confirmed: 1, others: 1_099 })
    // Publishes that were never sent say nothing about their queue.
    expect(recorder.count('onUnanswered', 'email', null)).toBe(unknown)
    const channels = count(peer.published.map(({ channel }) => String(channel)))
    expect(Math.max(...Object.values(channels))).toBe(385)
  })

  it('publishes to other queues when one keeps its channel waiting, and to that one when it answers', async ({
    expect,
  }) => {
    const { peer, recorder, publisher } = await open(SHORT_MS)
    const stuck = new Set<number>()
    let isLeaderless = true
    // As in RabbitMQ 3.10.8: a channel with a message for a queue without a leader handles nothing more.
    peer.on('publish', (published: Published) => {
      if (isLeaderless && published.routingKey === 'bad') stuck.add(published.channel)
      if (!stuck.has(published.channel)) peer.ack(published)
    })
    // Enough queues to use every channel.
    const others = Array.from({ length: 40 }, (_, i) => `queue-${i}`)
    let round = 0
    const sendToOthers = async () => {
      round += 1
      const send = (queue: string) => publisher.send(outgoing(`${round}-${queue}`, { queue }))
      return count(await Promise.all(others.map(send)))
    }
    const first = publisher.send(outgoing('bad-1', { queue: 'bad' }))
    const { unknown = 0, confirmed } = await sendToOthers()
    expect(unknown).toBeGreaterThan(0)
    expect(confirmed).toBe(others.length - unknown)
    expect(await first).toBe('unknown')
    expect(recorder.count('onUnanswered', 'bad', null)).toBe(1)

    const second = publisher.send(outgoing('bad-2', { queue: 'bad' }))
    const behind = publisher.send(outgoing('bad-3', { queue: 'bad' }))
    expect(await sendToOthers()).toEqual({ confirmed: others.length })
    expect(await Promise.all([second, behind])).toEqual(['unknown', 'refused'])
    // One message to this queue is still unanswered, so no second one is sent.
    expect(await publisher.send(outgoing('bad-4', { queue: 'bad' }))).toBe('refused')
    expect(await sendToOthers()).toEqual({ confirmed: others.length })

    isLeaderless = false
    stuck.clear()
    for (const late of peer.published.filter(({ routingKey }) => routingKey === 'bad')) {
      peer.nack(late)
    }
    await expect.poll(() => publisher.send(outgoing('bad-5', { queue: 'bad' }))).toBe('confirmed')
    expect(await publisher.send(outgoing('bad-6', { queue: 'bad' }))).toBe('confirmed')
    expect(peer.published.map(({ messageId }) => messageId)).not.toContain('bad-4')
    const last = peer.published.slice(-2)
    expect(last[0]?.channel).not.toBe(last[1]?.channel)
  })

  it('opens a new connection when RabbitMQ has stopped reading this one', async ({ expect }) => {
    const { peer, recorder, publisher } = await open(SHORT_MS)
    peer.stopReading()
    expect(await publisher.send(outgoing('a'))).toBe('unknown')
    await recorder.until('onOpen', 2)
    const again = publisher.send(outgoing('a'))
    for (const published of await peer.until(1)) peer.ack(published)
    expect(await again).toBe('confirmed')
    expect(peer.connections).toBe(2)
  })

  it('keeps its connection while an alarm keeps RabbitMQ from reading', async ({ expect }) => {
    const { peer, connection, publisher } = await open(100)
    peer.stopReading()
    peer.send(0, 'ConnectionBlocked', { reason: 'low on disk' })
    expect(await publisher.send(outgoing('a'))).toBe('unknown')
    // Longer than the publisher waits for a channel to open.
    await new Promise((resolve) => setTimeout(resolve, 6_000))
    expect(connection.isUp).toBe(true)
    peer.send(0, 'ConnectionUnblocked', {})
    await expect.poll(() => peer.connections).toBe(2)
  })

  it('holds 256 MiB at most, and has room again when it has given those publishes up', async ({
    expect,
  }) => {
    const { peer, publisher } = await open(SHORT_MS)
    const full = Array.from({ length: 384 }, (_, i) => publisher.send(outgoing(`id-${i}`)))
    // These wait behind a full window and are never written, so that a length without bytes will do.
    const large = { length: 128 * 1024 * 1024 - 1_024 } as Buffer
    const waiting = [1, 2].map((i) => publisher.send(outgoing(`large-${i}`, { content: large })))
    const content = Buffer.alloc(2_048)
    expect(await publisher.send(outgoing('too-much', { content }))).toBe('refused')
    await Promise.all([...full, ...waiting])

    peer.on('publish', (published: Published) => peer.ack(published))
    expect(await publisher.send(outgoing('later', { queue: 'sms', content }))).toBe('confirmed')
  })
})
