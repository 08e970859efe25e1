import type { Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { Connection } from '../../src/broker/connection.ts'
import { createNames } from '../../src/broker/names.ts'
import { type Outgoing, PublishLane } from '../../src/broker/publish-lane.ts'
import { Publisher } from '../../src/broker/publisher.ts'
import { FakePeer, type Published } from './fake-peer.ts'
import { logger, Recorder } from './harness.ts'

/** Only what a real broker does not do on demand; the rest is in publisher.services.test.ts. */

/** For what is to run into its timeout, where something else is to be answered before it. */
const SHORT_MS = 4_000

const opened: { connection: Connection; publisher: Publisher; peer: FakePeer }[] = []

afterEach(async () => {
  for (const { connection, publisher, peer } of opened.splice(0)) {
    publisher.stop()
    await connection.close()
    await peer.stop()
  }
})

async function open(timeoutMs = 10_000) {
  const peer = await FakePeer.start()
  const recorder = new Recorder()
  const shared = { logger, random: () => 0.5, observer: recorder.observer }
  const connection = new Connection({
    ...shared,
    name: 'publish',
    urls: [peer.url],
    connectionName: 'test',
    isPrompt: true,
  })
  const publisher = new Publisher({
    ...shared,
    connection,
    names: createNames(''),
    timeoutMs,
    onReturned: (queue, rungMs) => recorder.note('onReturned', queue, rungMs),
    onUnanswered: (queue, rungMs) => recorder.note('onUnanswered', queue, rungMs),
    onOpen: () => recorder.note('onOpen'),
    onChannelError: (code) => recorder.note('onChannelError', code),
  })
  opened.push({ connection, publisher, peer })
  await connection.start()
  await recorder.until('onOpen')
  return { peer, recorder, connection, publisher }
}

async function ticks(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise<void>((resolve) => process.nextTick(resolve))
}

function outgoing(id: string, given: Partial<Outgoing> = {}): Outgoing {
  return {
    id,
    queue: 'email',
    exchange: 'ojs.exchange.direct',
    routingKey: given.queue ?? 'email',
    rungMs: null,
    lanes: 'jobs',
    content: Buffer.from('{}'),
    options: { messageId: id, mandatory: true },
    ...given,
  }
}

describe('Publisher, against a scripted peer', () => {
  it('writes to the socket before the turn of the event loop is over', async () => {
    const { connection, publisher, peer } = await open()
    const { stream } = (await connection.openConfirmChannel()).connection as unknown as {
      stream: Socket
    }
    await nextTurn()
    const before = stream.bytesWritten
    const isOver = vi.fn()
    setImmediate(isOver)
    const outcomes = ['a', 'b'].map((id) => publisher.send(outgoing(id)))
    await ticks(3)
    expect(stream.bytesWritten).toBeGreaterThan(before)
    expect(isOver).not.toHaveBeenCalled()
    for (const published of await peer.until(2)) peer.ack(published)
    expect(await Promise.all(outcomes)).toEqual(['confirmed', 'confirmed'])
  })

  it('sends each message with its own headers, also when it is sent once more', async () => {
    const { peer, publisher } = await open()
    const options = (id: string, headers: object) => ({ messageId: id, mandatory: true, headers })
    const first = outgoing('a', {
      options: options('a', { 'x-ojs-queue': 'a', 'x-ojs-tags': 't' }),
    })
    const second = outgoing('b', { options: options('b', { 'x-ojs-queue': 'b' }) })
    const outcomes = [publisher.send(first), publisher.send(second)]
    for (const published of await peer.until(2)) peer.ack(published)
    await Promise.all(outcomes)
    const again = publisher.send(first)
    const third = (await peer.until(3))[2]
    if (!third) throw new Error('nothing was published')
    peer.ack(third)
    expect(await again).toBe('confirmed')
    expect((await peer.until(3)).map(({ headers }) => headers)).toEqual([
      { 'x-ojs-queue': 'a', 'x-ojs-tags': 't' },
      { 'x-ojs-queue': 'b' },
      { 'x-ojs-queue': 'a', 'x-ojs-tags': 't' },
    ])
  })

  it('answers unknown when the confirm does not come, and late confirms harm nobody', async () => {
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

  it('takes a return that may belong to an earlier publish for its own', async () => {
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

  it('matches a return to its own publish, whatever lies between return and confirm', async () => {
    const { peer, publisher } = await open()
    const sent = ['a', 'b', 'c'].map((id) => publisher.send(outgoing(id)))
    const [a, b, c] = await peer.until(3)
    if (!a || !b || !c) throw new Error('nothing was published')
    peer.returnToSender(b)
    peer.ack(a)
    peer.nack(c)
    peer.ack(b)
    expect(await Promise.all(sent)).toEqual(['confirmed', 'returned', 'nacked'])
  })

  it('tells which rung did not take a message', async () => {
    const { peer, recorder, publisher } = await open()
    const sent = publisher.send(outgoing('a', { rungMs: 250 }))
    const [one] = await peer.until(1)
    if (!one) throw new Error('nothing was published')
    peer.returnToSender(one)
    peer.ack(one)
    expect(await sent).toBe('returned')
    expect(recorder.all('onReturned').map(({ args }) => args)).toEqual([['email', 250]])
    expect(recorder.count('returned', 'email')).toBe(1)
  })

  it('gives every publish its own answer when one confirm covers several', async () => {
    const { peer, publisher } = await open()
    const sent = ['a', 'b', 'c'].map((id) => publisher.send(outgoing(id)))
    const [, b, c] = await peer.until(3)
    if (!b || !c) throw new Error('nothing was published')
    peer.ack(b, true)
    expect(await Promise.all(sent.slice(0, 2))).toEqual(['confirmed', 'confirmed'])
    expect(publisher.isPublishing('c')).toBe(true)
    peer.nack(c)
    expect(await sent[2]).toBe('nacked')
  })

  it('answers unknown for what was sent when the socket is cut, and refuses until it is back', async () => {
    const { peer, recorder, publisher } = await open()
    const sent = [publisher.send(outgoing('a')), publisher.send(outgoing('b', { queue: 'sms' }))]
    await peer.until(2)
    peer.cut()
    expect(await Promise.all(sent)).toEqual(['unknown', 'unknown'])
    expect(await publisher.send(outgoing('c'))).toBe('refused')
    await recorder.until('onOpen', 2)
    const after = publisher.send(outgoing('c'))
    const [, , last] = await peer.until(3)
    if (!last) throw new Error('nothing was published')
    peer.ack(last)
    expect(await after).toBe('confirmed')
  })

  it('opens a channel that the broker closed again; the others go on', async () => {
    const { peer, recorder, publisher } = await open()
    // FNV puts these two on different channels.
    const lost = publisher.send(outgoing('a', { queue: 'email' }))
    const other = publisher.send(outgoing('b', { queue: 'sms' }))
    const [a, b] = await peer.until(2)
    if (!a || !b) throw new Error('nothing was published')
    expect(a.channel).not.toBe(b.channel)
    peer.closeChannel(a.channel, 404)
    peer.ack(b)
    expect(await Promise.all([lost, other])).toEqual(['unknown', 'confirmed'])
    expect(recorder.count('onChannelError', 404)).toBe(1)
    await recorder.until('onOpen', 2)
    const again = publisher.send(outgoing('c', { queue: 'email' }))
    const [, , c] = await peer.until(3)
    if (c) peer.ack(c)
    expect(await again).toBe('confirmed')
  })

  it('tells what it may not publish from what is lost with its connection', async () => {
    const { peer, recorder, publisher } = await open()
    const forbidden = publisher.send(outgoing('a'))
    const [a] = await peer.until(1)
    if (a) peer.closeChannel(a.channel, 403)
    expect(await forbidden).toBe('forbidden')
    await recorder.until('onOpen', 2)
    const lost = publisher.send(outgoing('b'))
    await peer.until(2)
    peer.cut()
    expect(await lost).toBe('unknown')
    expect(recorder.count('publishUnknown', 'email')).toBe(2)
  })

  it('keeps a queue on one channel, in order', async () => {
    const { peer, publisher } = await open()
    const ids = Array.from({ length: 50 }, (_, i) => `id-${i}`)
    for (const id of ids) void publisher.send(outgoing(id))
    const published = await peer.until(50)
    expect(published.map(({ messageId }) => messageId)).toEqual(ids)
    expect(new Set(published.map(({ channel }) => channel)).size).toBe(1)
    for (let i = 0; i < 40; i++) void publisher.send(outgoing(`q-${i}`, { queue: `queue-${i}` }))
    const all = await peer.until(90)
    expect(new Set(all.map(({ channel }) => channel)).size).toBe(4)
  })

  it('keeps retry and dead letter queues away from the channels of job queues', async () => {
    const { peer, publisher } = await open()
    const send = (group: Outgoing['lanes'], i: number) =>
      publisher.send(outgoing(`${group}-${i}`, { queue: `queue-${i}`, lanes: group }))
    for (let i = 0; i < 40; i++)
      for (const group of ['jobs', 'others'] as const) void send(group, i)
    const published = await peer.until(80)
    const channelsOf = (group: string) =>
      new Set(
        published
          .filter(({ messageId }) => messageId.startsWith(group))
          .map(({ channel }) => channel),
      )
    expect(channelsOf('jobs').size).toBe(4)
    expect(channelsOf('others').size).toBe(2)
    expect(new Set([...channelsOf('jobs'), ...channelsOf('others')]).size).toBe(6)
  })

  it('sends no more than its window without a confirm; the rest waits, and is refused in time', async () => {
    const { peer, publisher } = await open(SHORT_MS)
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
    const channels = count(peer.published.map(({ channel }) => String(channel)))
    expect(Math.max(...Object.values(channels))).toBe(385)
  })

  it('publishes to others when a queue keeps its channel waiting, and to it when it answers', async () => {
    const { peer, recorder, publisher } = await open(SHORT_MS)
    const stuck = new Set<number>()
    let isLeaderless = true
    // As RabbitMQ 3.10.8: a channel that has something for a queue without a leader does no more.
    peer.on('publish', (published: Published) => {
      if (isLeaderless && published.routingKey === 'bad') stuck.add(published.channel)
      if (!stuck.has(published.channel)) peer.ack(published)
    })
    // Enough for every channel.
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
    // It has one message that it does not answer: it gets no second one.
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

  it('takes a new connection when RabbitMQ has stopped reading this one', async () => {
    const { peer, recorder, publisher } = await open(1_000)
    peer.stopReading()
    expect(await publisher.send(outgoing('a'))).toBe('unknown')
    await recorder.until('onOpen', 2)
    const again = publisher.send(outgoing('a'))
    for (const published of await peer.until(1)) peer.ack(published)
    expect(await again).toBe('confirmed')
    expect(peer.connections).toBe(2)
  })

  it('waits for RabbitMQ where an alarm keeps it from reading', async () => {
    const { peer, connection, publisher } = await open(100)
    peer.stopReading()
    peer.send(0, 'ConnectionBlocked', { reason: 'low on disk' })
    expect(await publisher.send(outgoing('a'))).toBe('unknown')
    // Longer than it waits for a channel.
    await new Promise((resolve) => setTimeout(resolve, 6_000))
    expect(connection.isUp).toBe(true)
    peer.send(0, 'ConnectionUnblocked', {})
    await expect.poll(() => peer.connections).toBe(2)
  })

  it.each<Pick<Outgoing, 'exchange' | 'lanes'>>([
    { exchange: 'ojs.exchange.direct', lanes: 'jobs' },
    { exchange: 'ojs.exchange.dlx', lanes: 'others' },
  ])(
    'has a queue that was new when the connection went prove itself on its own channel: $exchange',
    async (to) => {
      const { peer, recorder, publisher } = await open(10_000)
      publisher.noteNew('fresh')
      peer.cut()
      await recorder.until('onOpen', 2)
      for (const i of [1, 2]) void publisher.send(outgoing(`fresh-${i}`, { queue: 'fresh', ...to }))
      const others = Array.from({ length: 40 }, (_, i) => `queue-${i}`)
      for (const queue of others) void publisher.send(outgoing(queue, { queue }))
      const published = await peer.until(41)
      const own = published.filter(({ routingKey }) => routingKey === 'fresh')
      expect(own.map(({ messageId }) => messageId)).toEqual(['fresh-1'])
      expect(published.filter(({ channel }) => channel === own[0]?.channel)).toEqual(own)
      if (own[0]) peer.ack(own[0])
      expect((await peer.until(42)).at(-1)?.messageId).toBe('fresh-2')
    },
  )

  it('serves such a queue again, also when something was for it while no connection was there', async () => {
    const { connection, peer, recorder, publisher } = await open(10_000)
    publisher.noteNew('fresh')
    peer.cut()
    await vi.waitUntil(() => !connection.isUp)
    expect(await publisher.send(outgoing('early', { queue: 'fresh' }))).toBe('refused')
    await recorder.until('onOpen', 2)
    const sent = publisher.send(outgoing('late', { queue: 'fresh' }))
    const [late] = await Promise.race([peer.until(1), sent.then(() => [])])
    if (late) peer.ack(late)
    expect(await sent).toBe('confirmed')
  })

  it('refuses a second publish of an id that is under way, and more than it can hold', async () => {
    const { publisher } = await open(100)
    const first = publisher.send(outgoing('a'))
    expect(await publisher.send(outgoing('a'))).toBe('refused')
    expect(await first).toBe('unknown')
    const many = Array.from({ length: 16_400 }, (_, i) => publisher.send(outgoing(`id-${i}`)))
    expect(publisher.pending).toBe(16_384)
    expect(await many.at(-1)).toBe('refused')
    await Promise.all(many)
  })

  it('holds 256 MiB at most, and has room again when it has given them up', async () => {
    const { peer, publisher } = await open(SHORT_MS)
    const full = Array.from({ length: 384 }, (_, i) => publisher.send(outgoing(`id-${i}`)))
    // These wait behind a full window. Nobody has to write them to know how long they are.
    const large = { length: 128 * 1024 * 1024 - 1_024 } as Buffer
    const waiting = [1, 2].map((i) => publisher.send(outgoing(`large-${i}`, { content: large })))
    const content = Buffer.alloc(2_048)
    expect(await publisher.send(outgoing('too-much', { content }))).toBe('refused')
    await Promise.all([...full, ...waiting])

    peer.on('publish', (published: Published) => peer.ack(published))
    expect(await publisher.send(outgoing('later', { queue: 'sms', content }))).toBe('confirmed')
  })

  it('refuses what amqplib cannot encode, without harm to the channel', async () => {
    const { peer, publisher } = await open()
    const headers = { bad: { '!': 'nonsense', value: 1 } }
    expect(await publisher.send(outgoing('a', { options: { headers } }))).toBe('refused')
    const good = publisher.send(outgoing('b'))
    const [one] = await peer.until(1)
    if (one) peer.ack(one)
    expect(await good).toBe('confirmed')
  })

  it('drains: waits for the confirms that are out, until the deadline', async () => {
    const { peer, publisher } = await open()
    await publisher.drain(new AbortController().signal)
    const sent = publisher.send(outgoing('a'))
    const [one] = await peer.until(1)
    await publisher.drain(AbortSignal.timeout(30))
    expect(publisher.pending).toBe(1)
    const drained = publisher.drain(AbortSignal.timeout(5_000))
    if (one) peer.ack(one)
    await drained
    expect(publisher.pending).toBe(0)
    expect(await sent).toBe('confirmed')
  })
})

it('a lane opens one channel, when a reopen and the next connection meet', async () => {
  const { connection } = await open()
  const before = connection.channelsActive
  let opens = 0
  const lane = new PublishLane({
    connection,
    logger,
    random: () => 0.5,
    onSent: () => {},
    onOutcome: () => {},
    onReturned: () => {},
    onOpen: () => {
      opens += 1
    },
    onChannelError: () => {},
  })
  await Promise.all([lane.open(), lane.open()])
  await lane.open()
  expect(opens).toBe(1)
  expect(connection.channelsActive).toBe(before + 1)
})

function count(outcomes: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const outcome of outcomes) counts[outcome] = (counts[outcome] ?? 0) + 1
  return counts
}
