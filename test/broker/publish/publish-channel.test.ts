import { EventEmitter } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { PublishOutcome } from '../../../src/broker/broker.ts'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import type { Outgoing } from '../../../src/broker/messages/outgoing-message.ts'
import { type Publication, PublishChannel } from '../../../src/broker/publish/publish-channel.ts'
import { logger } from '../harness.ts'

const WINDOW = 384

/** A channel that records what is published on it, and confirms when the test says so. */
class FakeChannel extends EventEmitter {
  readonly ids: string[] = []
  readonly confirms: ((error: unknown) => void)[] = []
  hasRoom = true
  isClosed = false

  publish(
    _exchange: string,
    _routingKey: string,
    _content: Buffer,
    { messageId = '' }: { messageId?: string },
    onConfirm: (error: unknown) => void,
  ): boolean {
    this.ids.push(messageId)
    this.confirms.push(onConfirm)
    return this.hasRoom
  }
  async close(): Promise<void> {
    this.isClosed = true
    this.emit('close')
  }
}

let connection: { isUp: boolean; generation: number; openConfirmChannel(): Promise<unknown> }
let channels: FakeChannel[]
let outcomes: Record<string, PublishOutcome[]>
let publishChannel: PublishChannel

beforeEach(async () => {
  channels = []
  outcomes = {}
  connection = {
    isUp: true,
    generation: 1,
    async openConfirmChannel() {
      const channel = new FakeChannel()
      channels.push(channel)
      return channel
    },
  }
  publishChannel = newPublishChannel()
  await publishChannel.open()
})

function newPublishChannel(isProbe = false): PublishChannel {
  return new PublishChannel({
    connection: connection as unknown as Connection,
    logger,
    random: () => 0.5,
    isProbe,
    onSent: () => {},
    onOutcome: (publication, outcome) => {
      publication.isSettled = true
      outcomes[publication.id] = [...(outcomes[publication.id] ?? []), outcome]
    },
    onReturned: () => {},
    onOpen: () => {},
    onChannelError: () => {},
    onTooLarge: () => {},
    onForbidden: () => {},
  })
}

function send(id: string, to = publishChannel): Publication {
  const message = { exchange: 'e', routingKey: 'q', content: Buffer.of(1) }
  const publication = {
    ...{ id, message: { ...message, options: { messageId: id } } as unknown as Outgoing },
    ...{ isSent: false, isReturned: false, isSettled: false, publishChannel: null },
  } as unknown as Publication
  to.send(publication)
  return publication
}

/** Does to a publish what the publisher does when its time is over. */
function overdue(publication: Publication, of = publishChannel): void {
  of.giveUp(publication)
  publication.isSettled = true
}

const idsFrom = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => `id-${from + i}`)
const sendAll = (from: number, to: number) => idsFrom(from, to).map((id) => send(id))

function channel(index = 0): FakeChannel {
  const found = channels[index]
  if (!found) throw new Error('no channel was opened')
  return found
}

describe('a publish channel', () => {
  it('sends what waits for its window in order, and nothing ahead of it', async () => {
    sendAll(0, WINDOW + 2)
    expect(channel().ids).toHaveLength(WINDOW)
    channel().confirms[0]?.(null)
    // The window has room, but what waits is only sent in the next turn.
    send('late')
    expect(channel().ids).toHaveLength(WINDOW)
    for (const confirm of channel().confirms.slice(1)) confirm(null)
    await nextTurn()
    expect(channel().ids).toEqual([...idsFrom(0, WINDOW + 2), 'late'])
    for (const confirm of channel().confirms.slice(-3)) confirm(null)
    sendAll(1_000, 1_000 + WINDOW + 1)
    channel().confirms.at(-1)?.(null)
    await nextTurn()
    expect(channel().ids.at(-1)).toBe(`id-${1_000 + WINDOW}`)
  })

  it('never sends a publish that was given up while it waited', async () => {
    const sent = sendAll(0, WINDOW + 2)
    const waiting = sent[WINDOW]
    if (waiting) overdue(waiting)
    for (const confirm of [...channel().confirms]) confirm(null)
    await nextTurn()
    expect(channel().ids).not.toContain(`id-${WINDOW}`)
    expect(channel().ids.at(-1)).toBe(`id-${WINDOW + 1}`)
  })

  it('counts an overdue publish in its window until it is answered after all', async () => {
    for (const publication of sendAll(0, WINDOW)) overdue(publication)
    send('next')
    expect(channel().ids).toHaveLength(WINDOW)
    channel().confirms[0]?.(null)
    await nextTurn()
    expect(channel().ids.at(-1)).toBe('next')
    expect(outcomes).toEqual({})
  })

  it('writes nothing as long as its socket is full', () => {
    channel().hasRoom = false
    send('a')
    send('b')
    expect(channel().ids).toEqual(['a'])
    channel().hasRoom = true
    channel().emit('drain')
    expect(channel().ids).toEqual(['a', 'b'])
  })

  it('keeps no message body after sending it', () => {
    expect(send('a').message).toBeNull()
  })

  it('refuses what waits at once when its connection is lost, and serves the next connection', async () => {
    channel().hasRoom = false
    send('a')
    send('b')
    publishChannel.hold()
    connection.isUp = false
    publishChannel.close()
    expect(outcomes).toEqual({ b: ['refused'] })
    send('c')
    expect(outcomes['c']).toEqual(['refused'])
    connection.isUp = true
    connection.generation = 2
    await publishChannel.open()
    send('d')
    expect(channel(1).ids).toEqual(['d'])
  })

  it('is opened again when RabbitMQ has closed it, and publishes on the new channel', async () => {
    channel().emit('close')
    expect(publishChannel.isOpen).toBe(false)
    await expect.poll(() => channels.length, { interval: 1 }).toBe(2)
    await nextTurn()
    expect(publishChannel.isOpen).toBe(true)
    send('a')
    expect(channel(1).ids).toEqual(['a'])
    // Events of the old channel no longer matter.
    channel().emit('close')
    expect(publishChannel.isOpen).toBe(true)
  })

  it('is opened again at once each time, if something was confirmed in between', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    for (let closed = 0; closed < 3; closed++) {
      send(`id-${closed}`)
      channel(closed).confirms[0]?.(null)
      channel(closed).emit('close')
      vi.advanceTimersByTime(1)
      await nextTurn()
      expect(publishChannel.isOpen).toBe(true)
    }
  })

  it('is not opened again at once when each publish closes it', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    let reopened = 0
    for (let closed = 0; closed < 3; closed++) {
      send(`id-${closed}`)
      channel(closed)?.emit('error', Object.assign(new Error('not found'), { code: 404 }))
      // amqplib calls back the unconfirmed publishes before it emits `close`.
      channel(closed)?.confirms[0]?.(new Error('channel closed'))
      channel(closed)?.emit('close')
      vi.advanceTimersByTime(1)
      await nextTurn()
      if (!publishChannel.isOpen) break
      reopened += 1
    }
    expect(reopened).toBe(1)
  })

  it('holds back a publish while it opens, and sends it then', async () => {
    const another = newPublishChannel()
    const opening = another.open()
    send('a', another)
    expect(outcomes).toEqual({})
    await opening
    expect(channel(1).ids).toEqual(['a'])
  })
})

describe('a publish channel that is replaced', () => {
  it('sends nothing while it is held, and goes on with it when it is released', () => {
    publishChannel.hold()
    send('a')
    expect(channel().ids).toEqual([])
    publishChannel.release()
    expect(channel().ids).toEqual(['a'])
  })

  it('passes all that waits to the other one, in order', async () => {
    const other = newPublishChannel()
    await other.open()
    publishChannel.hold()
    send('a')
    send('b')
    publishChannel.passOn(other)
    publishChannel.release()
    expect([channel(0).ids, channel(1).ids]).toEqual([[], ['a', 'b']])
  })

  it('is closed with its last answer, however late, and not opened again', async () => {
    const [first, second] = [send('a'), send('b')]
    if (first && second) overdue(first)
    let isRetired = false
    publishChannel.retire(() => {
      isRetired = true
    })
    channel().confirms[1]?.(null)
    await nextTurn()
    expect([channel().isClosed, isRetired]).toEqual([false, false])
    channel().confirms[0]?.(null)
    await nextTurn()
    expect([channel().isClosed, isRetired]).toEqual([true, true])
    await publishChannel.open()
    await new Promise((resolve) => setTimeout(resolve, 5))
    expect(channels).toHaveLength(1)
  })
})

describe('a publish channel that is retired before it is open', () => {
  const retired = () => {
    const onRetired = vi.fn()
    publishChannel = newPublishChannel()
    const opened = publishChannel.open()
    const waiting = send('a')
    publishChannel.retire(onRetired)
    return { opened, waiting, onRetired }
  }

  it('refuses what waits, and is done, when it cannot be opened', async () => {
    connection.openConfirmChannel = async () => {
      throw new Error('no more channels')
    }
    const { opened, onRetired } = retired()
    await opened
    expect([outcomes['a'], onRetired.mock.calls.length]).toEqual([['refused'], 1])
  })

  it('is closed at once when nothing waits for it any more', async () => {
    const { opened, waiting, onRetired } = retired()
    if (waiting) overdue(waiting)
    await opened
    await nextTurn()
    expect([channel(1).isClosed, onRetired.mock.calls.length]).toEqual([true, 1])
  })
})

describe('a publish channel on probation', () => {
  let probe: PublishChannel
  beforeEach(async () => {
    probe = newPublishChannel(true)
    await probe.open()
  })

  it('has one publish under way, and refuses all others behind an overdue one', () => {
    const first = send('a', probe)
    send('b', probe)
    expect(channel(1).ids).toEqual(['a'])
    overdue(first, probe)
    expect(outcomes).toEqual({ b: ['refused'] })
    send('c', probe)
    expect(outcomes['c']).toEqual(['refused'])
  })

  it('sends all that waits when it is retired, and is closed after the confirms', async () => {
    for (const id of ['a', 'b', 'c']) send(id, probe)
    probe.retire(() => {})
    expect(channel(1).ids).toEqual(['a', 'b', 'c'])
    for (const confirm of channel(1).confirms) confirm(null)
    await nextTurn()
    expect(channel(1).isClosed).toBe(true)
  })
})
