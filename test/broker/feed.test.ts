import { expect, it } from 'vitest'
import type { LiveDelivery } from '../../src/broker/delivery.ts'
import { Feed, type FeedOptions } from '../../src/broker/feed.ts'
import { systemClock } from '../../src/clock.ts'

const MIB = 1024 * 1024

function feedOf(sizes: readonly number[]): Feed {
  const options: Partial<FeedOptions> = { queue: 'q', clock: systemClock(), random: Math.random }
  const feed = new Feed(options as FeedOptions)
  for (const [order, size] of sizes.entries()) {
    feed.add({ priority: 0, order, size } as unknown as LiveDelivery)
  }
  return feed
}

it('gives as many as were asked for, and fewer of what is large', () => {
  const small = feedOf([1, 1, 1, 1])
  const large = feedOf([20 * MIB, 20 * MIB, 20 * MIB, 40 * MIB, 1])
  const taken: LiveDelivery[] = []
  small.takeInto(taken, 3)
  expect(taken).toHaveLength(3)
  large.takeInto(taken, 100)
  expect(taken.map(({ order }) => order)).toEqual([0, 1, 2, 0, 1])
  small.takeInto(taken, 100)
  expect(taken).toHaveLength(5)
  const next: LiveDelivery[] = []
  large.takeInto(next, 1)
  large.takeInto(next, 100)
  expect(next.map(({ order }) => order)).toEqual([2, 3])
})
