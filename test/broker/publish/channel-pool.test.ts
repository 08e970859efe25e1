import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import type { ConnectionListener } from '../../../src/broker/connection/connection-options.ts'
import type { Outgoing } from '../../../src/broker/messages/outgoing-message.ts'
import { Lanes } from '../../../src/broker/publish/channel-pool.ts'
import type { Publication, PublishLane } from '../../../src/broker/publish/publish-channel.ts'
import { UNWRITTEN_MS } from '../../../src/broker/topology/entity.ts'
import { logger } from '../harness.ts'

const TIMEOUT_MS = 10_000
const MAX_OWN_LANES = 32
const MAX_RETIRED = 16

/** A lane that records what is done to it. */
class FakeLane {
  readonly isProbe: boolean
  isOpen = true
  isHeld = false
  isClosed = false
  isRetired = false
  givenUp: Publication[] = []
  passedOnTo: FakeLane | null = null
  /** Reports that everything sent through the lane is answered. */
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
  passOn(to: FakeLane): void {
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

let lanes: Lanes
let made: FakeLane[]
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
  lanes = new Lanes({
    connection,
    clock: { now: () => now, wall: () => now },
    logger,
    count: { jobs: 1, others: 1 },
    timeoutMs: TIMEOUT_MS,
    newLane: ({ isProbe }) => {
      const lane = new FakeLane(isProbe)
      made.push(lane)
      return lane as unknown as PublishLane
    },
  })
})
afterEach(() => void vi.restoreAllMocks())

const message = (routingKey: string) =>
  ({ exchange: 'ojs.exchange.direct', routingKey, group: 'jobs' }) as Outgoing

const laneFor = (routingKey: string) => lanes.laneFor(message(routingKey)) as unknown as FakeLane

/** A publish to this routing key, on the lane that it takes. */
function publication(routingKey: string, given: Partial<Publication> = {}): Publication {
  const { exchange } = message(routingKey)
  const lane = laneFor(routingKey) as unknown as PublishLane
  return { exchange, routingKey, isSent: true, lane, ...given } as Publication
}

/** Resolves when lanes have been opened and replaced. */
const settled = () => new Promise((resolve) => setImmediate(resolve))

describe('a publish that is not answered in time', () => {
  it('moves its destination to a lane of its own, until the destination answers', async () => {
    const shared = laneFor('bad')
    const late = publication('bad')
    lanes.onOverdue(late)
    await settled()
    expect(shared.givenUp).toEqual([late])
    const own = laneFor('bad')
    expect([own.isProbe, laneFor('bad')]).toEqual([true, own])
    expect(laneFor('good')).not.toBe(own)
    lanes.onAnswered(publication('good'))
    expect(laneFor('bad')).toBe(own)
    lanes.onAnswered(publication('bad'))
    expect(own.isRetired).toBe(true)
    expect(laneFor('bad').isProbe).toBe(false)
  })

  it('that was never sent does not make its destination suspect', async () => {
    const shared = laneFor('bad')
    lanes.onOverdue(publication('bad', { isSent: false }))
    await settled()
    expect(laneFor('bad')).toBe(shared)
  })

  it(`gives at most ${MAX_OWN_LANES} destinations a lane of their own; each that answers makes room`, () => {
    const all = Array.from({ length: MAX_OWN_LANES + 1 }, (_, i) => `bad-${i}`)
    for (const queue of all) lanes.onOverdue(publication(queue, { lane: laneFor('good') as never }))
    expect(all.map((queue) => laneFor(queue).isProbe)).toEqual([
      ...Array(MAX_OWN_LANES).fill(true),
      false,
    ])
    lanes.onAnswered(publication('bad-0'))
    expect(laneFor(all.at(-1) ?? '').isProbe).toBe(true)
  })
})

describe('the replacement of a lane', () => {
  it('passes what waits in the old lane to the new one, and retires the old one', async () => {
    const old = laneFor('q')
    lanes.onRefused(publication('q'))
    expect(old.isHeld).toBe(true)
    await settled()
    const fresh = laneFor('q')
    expect(fresh).not.toBe(old)
    expect([old.passedOnTo, old.isHeld, old.isRetired]).toEqual([fresh, false, true])
  })

  it('does not happen when the connection is lost meanwhile', async () => {
    const old = laneFor('q')
    lanes.onRefused(publication('q'))
    old.close()
    await settled()
    expect(laneFor('q')).toBe(old)
    expect([old.passedOnTo, old.isRetired]).toEqual([null, false])
    expect(made.at(-1)?.isRetired).toBe(true)
  })

  it('happens only once per publish timeout for a full queue', async () => {
    const count = made.length + 1
    lanes.onRefused(publication('q'))
    lanes.onRefused(publication('q'))
    await settled()
    expect(made).toHaveLength(count)
    now += TIMEOUT_MS - 1
    lanes.onRefused(publication('q'))
    expect(made).toHaveLength(count)
    now += 1
    lanes.onRefused(publication('q'))
    expect(made).toHaveLength(count + 1)
    await settled()
  })

  it(`does not happen while ${MAX_RETIRED} replaced lanes still wait for their answers`, async () => {
    const replace = async (queue = 'q') => {
      const before = laneFor(queue)
      now += TIMEOUT_MS
      lanes.onRefused(publication(queue))
      await settled()
      return before
    }
    const retired: FakeLane[] = []
    for (let i = 0; i < MAX_RETIRED; i++) retired.push(await replace())
    const kept = await replace()
    lanes.onOverdue(publication('q'))
    await settled()
    expect(laneFor('other')).toBe(kept)
    retired[3]?.end()
    await replace('other')
    expect(laneFor('other')).not.toBe(kept)
  })
})

describe('a lost connection', () => {
  it('closes every lane, and each suspect destination gets a new lane of its own', async () => {
    const all = Array.from({ length: MAX_OWN_LANES }, (_, i) => `bad-${i}`)
    for (const queue of all) lanes.onOverdue(publication(queue))
    await settled()
    const own = all.map(laneFor)
    listener.down?.('cut')
    expect(made.filter((lane) => !lane.isClosed)).toEqual([])
    const next = all.map(laneFor)
    expect(next.every((lane, i) => lane.isProbe && lane !== own[i])).toBe(true)
  })

  it('makes destinations suspect that were declared less than UNWRITTEN_MS ago, and no older ones', () => {
    const { exchange } = message('')
    lanes.noteNew({ exchange, routingKey: 'written' })
    now += 1
    lanes.noteNew({ exchange, routingKey: 'fresh' })
    now += UNWRITTEN_MS
    listener.down?.('cut')
    expect([laneFor('written').isProbe, laneFor('fresh').isProbe]).toEqual([false, true])
    lanes.onAnswered(publication('fresh'))
    listener.down?.('cut')
    expect(laneFor('fresh').isProbe).toBe(false)
  })
})
