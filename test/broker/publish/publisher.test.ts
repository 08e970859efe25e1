import type { Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Outgoing } from '../../../src/broker/messages/outgoing-message.ts'
import { PublishChannel } from '../../../src/broker/publish/publish-channel.ts'
import { logger } from '../harness.ts'
import { closeAll, open, outgoing } from '../publish-stage.ts'

/** Only what a real broker does not do on demand; the rest is in publisher.services.test.ts. */

afterEach(closeAll)

async function ticks(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise<void>((resolve) => process.nextTick(resolve))
}

const TOO_LARGE =
  'PRECONDITION_FAILED - message size 70012 is larger than configured max size 65536'

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

  it('sends each message with its own headers, also when it is published again', async () => {
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

  it('reports the retry queue that has returned a message', async () => {
    const { peer, recorder, publisher } = await open()
    const sent = publisher.send(outgoing('a', { retryQueueMs: 250 }))
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

  it('answers unknown for what was sent when the socket is cut, and refuses until the connection is back', async () => {
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

  it('opens a channel again that the broker closed, while the others go on', async () => {
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

  it('answers forbidden when a right is missing, and unknown when the connection is lost', async () => {
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

  it('keeps a queue on one channel, in order, and spreads many queues over four', async () => {
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

  it('uses other channels for retry and dead letter queues than for job queues', async () => {
    const { peer, publisher } = await open()
    const send = (group: Outgoing['group'], i: number) =>
      publisher.send(outgoing(`${group}-${i}`, { queue: `queue-${i}`, group }))
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

  it.each<Pick<Outgoing, 'exchange' | 'group'>>([
    { exchange: 'ojs.exchange.direct', group: 'jobs' },
    { exchange: 'ojs.exchange.dlx', group: 'others' },
  ])(
    'publishes on a separate channel to a queue that was new when the connection was lost: $exchange',
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

  it('serves a queue that was new when the connection was lost, also after a publish without a connection', async () => {
    const { connection, peer, recorder, publisher } = await open(10_000)
    publisher.noteNew('fresh')
    peer.cut()
    await vi.waitUntil(() => !connection.isUp, 15_000)
    expect(await publisher.send(outgoing('early', { queue: 'fresh' }))).toBe('refused')
    await recorder.until('onOpen', 2)
    const sent = publisher.send(outgoing('late', { queue: 'fresh' }))
    const [late] = await Promise.race([peer.until(1), sent.then(() => [])])
    if (late) peer.ack(late)
    expect(await sent).toBe('confirmed')
  })

  it('refuses a second publish of an id that is under way, and more than 16,384 publishes', async () => {
    const { publisher } = await open(100)
    const first = publisher.send(outgoing('a'))
    expect(await publisher.send(outgoing('a'))).toBe('refused')
    expect(await first).toBe('unknown')
    const many = Array.from({ length: 16_400 }, (_, i) => publisher.send(outgoing(`id-${i}`)))
    expect(publisher.pending).toBe(16_384)
    expect(await many.at(-1)).toBe('refused')
    await Promise.all(many)
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

  it('drain() waits for the confirms that are missing, until the deadline', async () => {
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

it('a publish channel opens one channel when a reopen and the next connection coincide', async () => {
  const { connection } = await open()
  const before = connection.channelsActive
  let opens = 0
  const publishChannel = new PublishChannel({
    connection,
    logger,
    random: () => 0.5,
    isProbe: false,
    onSent: () => {},
    onOutcome: () => {},
    onReturned: () => {},
    onOpen: () => {
      opens += 1
    },
    onChannelError: () => {},
    onTooLarge: () => {},
    onForbidden: () => {},
  })
  await Promise.all([publishChannel.open(), publishChannel.open()])
  await publishChannel.open()
  expect(opens).toBe(1)
  expect(connection.channelsActive).toBe(before + 1)
})

it('the publisher forgets the largest message size of RabbitMQ with the connection', async () => {
  const { peer, recorder, publisher } = await open()
  const content = Buffer.alloc(70_000)
  const large = publisher.send(outgoing('a', { content }))
  const [a] = await peer.until(1)
  const fields = { replyCode: 406, replyText: TOO_LARGE, classId: 0, methodId: 0 }
  peer.send(a?.channel ?? 0, 'ChannelClose', fields)
  expect(await large).toBe('too-large')
  expect(await publisher.send(outgoing('b', { content }))).toBe('too-large')
  await recorder.until('onOpen', 2)
  peer.cut()
  await recorder.until('onOpen', 3)
  const again = publisher.send(outgoing('c', { content }))
  const [, c] = await Promise.race([peer.until(2), again.then(() => [])])
  if (c) peer.ack(c)
  expect(await again).toBe('confirmed')
  // A large message that is lost for another reason is not taken for too large either.
  const lost = publisher.send(outgoing('d', { content }))
  await peer.until(3)
  peer.cut()
  expect(await lost).toBe('unknown')
})
