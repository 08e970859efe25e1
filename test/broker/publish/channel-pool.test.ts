import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import type { ConnectionListener } from '../../../src/broker/connection/connection-options.ts'
import type { Outgoing } from '../../../src/broker/messages/outgoing-message.ts'
import { ChannelPool } from '../../../src/broker/publish/channel-pool.ts'
import type { Publication, PublishChannel } from '../../../src/broker/publish/publish-channel.ts'
import { UNWRITTEN_MS } from '../../../src/broker/topology/entity.ts'
import { logger } from '../harness.ts'

const TIMEOUT_MS = 10_000
const MAX_OWN_CHANNELS = 32
const MAX_RETIRED = 16

/** A publish channel that records what is done to it. */
class FakePublishChannel {
  readonly isProbe: boolean
  isOpen = true
  isHeld = false
  isClosed = false
  isRetired = false
  givenUp: Publication[] = []
  passedOnTo: FakePublishChannel | null = null
  /** Reports that everything sent through the publish channel is answered. */
  end = () => {}

  constructor(isProbe: boolean) {
    this.isProbe = isProbe
  }

  async open(): Promise<void> {}
  close(): void {
    this.isClosed = true
    this.isHeld = false
  }
  hold(): void {
    this.isHeld = true
  }
  release(): void {
    this.isHeld = false
  }
  passOn(to: FakePublishChannel): void {
    this.passedOnTo = to
  }
  retire(onRetired: () => void): void {
    this.isRetired = true
    this.end = onRetired
  }
  giveUp(publication: Publication): void {
    this.givenUp.push(publication)
  }
}

let publishChannels: ChannelPool
let made: FakePublishChannel[]
let listener: ConnectionListener
let now: number

beforeEach(() => {
  now = 1_000_000
  made = []
  const connection = {
    blockedReason: null,
    listen: (given: ConnectionListener) => {
      listener = given
    },
  } as unknown as Connection
  publishChannels = new ChannelPool({
    connection,
    clock: { now: () => now, wall: () => now },
    logger,
    count: { jobs: 1, others: 1 },
    timeoutMs: TIMEOUT_MS,
    newPublishChannel: ({ isProbe }) => {
      const publishChannel = new FakePublishChannel(isProbe)
      made.push(publishChannel)
      return publishChannel as unknown as PublishChannel
    },
  })
})
afterEach(() => void vi.restoreAllMocks())

const message = (routingKey: string) =>
  ({ exchange: 'ojs.exchange.direct', routingKey, group: 'jobs' }) as Outgoing

const channelFor = (routingKey: string) =>
  publishChannels.channelFor(message(routingKey)) as unknown as FakePublishChannel

/** A publish to this routing key, on the publish channel that it takes. */
function publication(routingKey: string, given: Partial<Publication> = {}): Publication {
  const { exchange } = message(routingKey)
  const publishChannel = channelFor(routingKey) as unknown as PublishChannel
  return { exchange, routingKey, isSent: true, publishChannel, ...given } as Publication
}

/** Resolves when publish channels have been opened and replaced. */
const settled = () => new Promise((resolve) => setImmediate(resolve))

describe('a publish that is not answered in time', () => {
  it('moves its destination to a publish channel of its own, until the destination answers', async () => {
    const shared = channelFor('bad')
    const late = publication('bad')
    publishChannels.onOverdue(late)
    await settled()
    expect(shared.givenUp).toEqual([late])
    const own = channelFor('bad')
    expect([own.isProbe, channelFor('bad')]).toEqual([true, own])
    expect(channelFor('good')).not.toBe(own)
    publishChannels.onAnswered(publication('good'))
    expect(channelFor('bad')).toBe(own)
    publishChannels.onAnswered(publication('bad'))
    expect(own.isRetired).toBe(true)
    expect(channelFor('bad').isProbe).toBe(false)
  })

  it('that was never sent does not make its destination suspect', async () => {
    const shared = channelFor('bad')
    publishChannels.onOverdue(publication('bad', { isSent: false }))
    await settled()
    expect(channelFor('bad')).toBe(shared)
  })

  it(`gives at most ${MAX_OWN_CHANNELS} destinations a publish channel of their own; each that answers makes room`, () => {
    const all = Array.from({ length: MAX_OWN_CHANNELS + 1 }, (_, i) => `bad-${i}`)
    for (const queue of all)
      publishChannels.onOverdue(publication(queue, { publishChannel: channelFor('good') as never }))
    expect(all.map((queue) => channelFor(queue).isProbe)).toEqual([
      ...Array(MAX_OWN_CHANNELS).fill(true),
      false,
    ])
    publishChannels.onAnswered(publication('bad-0'))
    expect(channelFor(all.at(-1) ?? '').isProbe).toBe(true)
  })
})

describe('the replacement of a publish channel', () => {
  it('passes what waits in the old publish channel to the new one, and retires the old one', async () => {
    const old = channelFor('q')
    publishChannels.onRefused(publication('q'))
    expect(old.isHeld).toBe(true)
    await settled()
    const fresh = channelFor('q')
    expect(fresh).not.toBe(old)
    expect([old.passedOnTo, old.isHeld, old.isRetired]).toEqual([fresh, false, true])
  })

  it('does not happen when the connection is lost meanwhile', async () => {
    const old = channelFor('q')
    publishChannels.onRefused(publication('q'))
    old.close()
    await settled()
    expect(channelFor('q')).toBe(old)
    expect([old.passedOnTo, old.isRetired]).toEqual([null, false])
    expect(made.at(-1)?.isRetired).toBe(true)
  })

  it('happens only once per publish timeout for a full queue', async () => {
    const count = made.length + 1
    publishChannels.onRefused(publication('q'))
    publishChannels.onRefused(publication('q'))
    await settled()
    expect(made).toHaveLength(count)
    now += TIMEOUT_MS - 1
    publishChannels.onRefused(publication('q'))
    expect(made).toHaveLength(count)
    now += 1
    publishChannels.onRefused(publication('q'))
    expect(made).toHaveLength(count + 1)
    await settled()
  })

  it(`does not happen while ${MAX_RETIRED} replaced publish channels still wait for their answers`, async () => {
    const replace = async (queue = 'q') => {
      const before = channelFor(queue)
      now += TIMEOUT_MS
      publishChannels.onRefused(publication(queue))
      await settled()
      return before
    }
    const retired: FakePublishChannel[] = []
    for (let i = 0; i < MAX_RETIRED; i++) retired.push(await replace())
    const kept = await replace()
    publishChannels.onOverdue(publication('q'))
    await settled()
    expect(channelFor('other')).toBe(kept)
    retired[3]?.end()
    await replace('other')
    expect(channelFor('other')).not.toBe(kept)
  })
})

describe('a lost connection', () => {
  it('closes every publish channel, and each suspect destination gets a new publish channel of its own', async () => {
    const all = Array.from({ length: MAX_OWN_CHANNELS }, (_, i) => `bad-${i}`)
    for (const queue of all) publishChannels.onOverdue(publication(queue))
    await settled()
    const own = all.map(channelFor)
    listener.down?.('cut')
    expect(made.filter((publishChannel) => !publishChannel.isClosed)).toEqual([])
    const next = all.map(channelFor)
    expect(
      next.every((publishChannel, i) => publishChannel.isProbe && publishChannel !== own[i]),
    ).toBe(true)
  })

  it('makes destinations suspect that were declared less than UNWRITTEN_MS ago, and no older ones', () => {
    const { exchange } = message('')
    publishChannels.noteNew({ exchange, routingKey: 'written' })
    now += 1
    publishChannels.noteNew({ exchange, routingKey: 'fresh' })
    now += UNWRITTEN_MS
    listener.down?.('cut')
    expect([channelFor('written').isProbe, channelFor('fresh').isProbe]).toEqual([false, true])
    publishChannels.onAnswered(publication('fresh'))
    listener.down?.('cut')
    expect(channelFor('fresh').isProbe).toBe(false)
  })
})
