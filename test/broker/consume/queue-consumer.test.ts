import { beforeEach, describe, expect, it } from 'vitest'
import type {
  ConsumerChannel,
  ConsumerState,
} from '../../../src/broker/consume/consumer-channel.ts'
import type { LiveDelivery } from '../../../src/broker/consume/delivery.ts'
import {
  QueueConsumer,
  type QueueConsumerOptions,
} from '../../../src/broker/consume/queue-consumer.ts'
import { systemClock } from '../../../src/clock.ts'

const MIB = 1024 * 1024

function queueConsumerOf(sizes: readonly number[]): QueueConsumer {
  const options: Partial<QueueConsumerOptions> = {
    queue: 'q',
    clock: systemClock(),
    random: Math.random,
  }
  const queueConsumer = new QueueConsumer(options as QueueConsumerOptions)
  for (const [order, size] of sizes.entries()) {
    queueConsumer.add({ priority: 0, order, size } as unknown as LiveDelivery)
  }
  return queueConsumer
}

it('a queueConsumer gives as many deliveries as were asked for, and fewer when they are large', () => {
  const small = queueConsumerOf([1, 1, 1, 1])
  const large = queueConsumerOf([20 * MIB, 20 * MIB, 20 * MIB, 40 * MIB, 1])
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

it('a queueConsumer is short of a count until it has so many deliveries, or bytes enough for one answer', () => {
  const small = queueConsumerOf([1, 1])
  expect([2, 3].map((count) => small.isShortOf(count))).toEqual([false, true])
  expect(queueConsumerOf([20 * MIB, 20 * MIB]).isShortOf(3)).toBe(false)
})

describe('the consumers of a queue', () => {
  const PREFETCH = 4
  const IDLE_MS = 2_000

  /** A consumer channel whose state the test sets. */
  class FakeConsumerChannel {
    state: ConsumerState = 'opening'
    wasAccepted = false
    unacked = 0
    prefetch = PREFETCH
    isCounted = false
    returned: number[] = []
    #onOpen = () => {}

    get isFull(): boolean {
      return this.unacked >= PREFETCH
    }
    open(): Promise<void> {
      return new Promise((resolve) => {
        this.#onOpen = resolve
      })
    }
    async run(): Promise<void> {
      this.state = 'running'
      this.wasAccepted = true
      this.#onOpen()
      await Promise.resolve()
    }
    isIn(...states: ConsumerState[]): boolean {
      return states.includes(this.state)
    }
    async cancel(): Promise<void> {
      this.state = 'draining'
    }
  }

  let consumerChannels: FakeConsumerChannel[]
  let now: number
  let queueConsumer: QueueConsumer
  beforeEach(() => {
    consumerChannels = []
    now = 1_000_000
    queueConsumer = new QueueConsumer({
      ...{ queue: 'q', maxConsumerChannels: 3, prefetch: PREFETCH, idleMs: IDLE_MS },
      ...{ clock: { now: () => now, wall: () => now }, random: () => 0.5 },
      newConsumerChannel: () => {
        const consumerChannel = new FakeConsumerChannel()
        consumerChannels.push(consumerChannel)
        return consumerChannel as unknown as ConsumerChannel
      },
    })
    queueConsumer.exists = true
  })

  async function running(count: number, unacked = PREFETCH): Promise<void> {
    while (consumerChannels.length < count) {
      queueConsumer.nourish()
      const consumerChannel = consumerChannels.at(-1)
      await consumerChannel?.run()
      if (consumerChannel) consumerChannel.unacked = unacked
    }
  }
  const end = (
    consumerChannel: FakeConsumerChannel | undefined,
    why: 'closed' | 'connection-lost' = 'connection-lost',
  ) => queueConsumer.onConsumerEnd(consumerChannel as unknown as ConsumerChannel, { why }, [])
  const delivery = (order: number, consumerChannel?: FakeConsumerChannel) => {
    const giveBack = () => consumerChannel?.returned.push(order)
    const told = { id: `id-${order}`, priority: 0, order, size: 1, consumerChannel, giveBack }
    return told as unknown as LiveDelivery
  }

  it('are opened one at a time, up to maxConsumerChannels, when the others are full and too few deliveries are here', async () => {
    queueConsumer.nourish()
    queueConsumer.nourish()
    expect(consumerChannels).toHaveLength(1)
    await consumerChannels[0]?.run()
    queueConsumer.nourish()
    expect(consumerChannels).toHaveLength(1)
    if (consumerChannels[0]) consumerChannels[0].unacked = PREFETCH
    queueConsumer.add(delivery(1))
    queueConsumer.nourish()
    expect(consumerChannels).toHaveLength(1)
    queueConsumer.nourish(2)
    expect(consumerChannels).toHaveLength(2)
    expect(queueConsumer.mayReceive).toBe(true)
    queueConsumer.gatheredInVain()
    now += 9_999
    expect(queueConsumer.mayReceive).toBe(false)
    now += 1
    expect(queueConsumer.mayReceive).toBe(true)
    queueConsumer.takeInto([], 1)
    if (consumerChannels[1]) consumerChannels[1].unacked = PREFETCH
    await consumerChannels[1]?.run()
    expect(queueConsumer.mayReceive).toBe(false)
    await running(3)
    queueConsumer.nourish()
    expect(consumerChannels).toHaveLength(3)
  })

  it('are limited to 512 channels, including those that only wait for their leases', async () => {
    for (let i = 0; i < 512; i++) {
      await running(i + 1)
      await consumerChannels[i]?.cancel()
    }
    queueConsumer.nourish()
    expect(consumerChannels).toHaveLength(512)
  })

  it('that RabbitMQ refuses are opened again with growing delays, however long the last one lived', async () => {
    await running(1)
    now += 3_600_000
    const delays: number[] = []
    for (let i = 0; i < 4; i++) {
      queueConsumer.nourish()
      end(consumerChannels.at(-1))
      delays.push(queueConsumer.restartDelayMs)
      now += queueConsumer.restartDelayMs
    }
    expect(delays).toEqual([1_000, 2_000, 4_000, 8_000])
  })

  it('that end are opened again with growing delays, but at once when we closed them', async () => {
    await running(1)
    end(consumerChannels[0], 'closed')
    expect(queueConsumer.restartDelayMs).toBe(0)
    queueConsumer.nourish()
    for (const delayMs of [1_000, 2_000, 4_000]) {
      end(consumerChannels.at(-1))
      const count = consumerChannels.length
      now += delayMs - 1
      queueConsumer.nourish()
      expect(consumerChannels).toHaveLength(count)
      now += 1
      queueConsumer.nourish()
      expect(consumerChannels).toHaveLength(count + 1)
    }
    end(consumerChannels.at(-1))
    queueConsumer.forgetFailures()
    expect(queueConsumer.restartDelayMs).toBe(0)
  })

  it('that end take their lost deliveries out of what can be fetched', async () => {
    await running(1)
    const [kept, lost] = [delivery(1), delivery(2)]
    queueConsumer.add(kept)
    queueConsumer.add(lost)
    queueConsumer.onConsumerEnd(
      consumerChannels[0] as unknown as ConsumerChannel,
      { why: 'connection-lost' },
      [lost],
    )
    const taken: LiveDelivery[] = []
    queueConsumer.takeInto(taken, 2)
    expect(taken).toEqual([kept])
  })

  it('are quiet unless one of them is opening, running or being cancelled', async () => {
    expect(queueConsumer.isQuiet).toBe(true)
    queueConsumer.nourish()
    const states = ['opening', 'running', 'cancelling', 'draining', 'closed'] as const
    const quiet = states.map((state) => {
      if (consumerChannels[0]) consumerChannels[0].state = state
      return queueConsumer.isQuiet
    })
    expect(quiet).toEqual([false, false, false, true, true])
  })

  it('are waited for while they open, and for 250 ms until their first delivery', async () => {
    queueConsumer.nourish()
    now += 60_000
    expect([queueConsumer.isStarting, queueConsumer.isSilent]).toEqual([true, true])
    await consumerChannels[0]?.run()
    now += 249
    expect([queueConsumer.isStarting, queueConsumer.isSilent]).toEqual([true, false])
    now += 1
    expect(queueConsumer.isStarting).toBe(false)
    now -= 1
    queueConsumer.add(delivery(1))
    expect(queueConsumer.isStarting).toBe(false)
  })

  it('get back what nobody has fetched, in the order in which it came', async () => {
    await running(1)
    for (const order of [2, 1, 3]) queueConsumer.add(delivery(order, consumerChannels[0]))
    expect(queueConsumer.giveBack()).toBe(3)
    expect(consumerChannels[0]?.returned).toEqual([1, 2, 3])
  })

  it('are one less after five seconds in which the others had a whole prefetch to spare', async () => {
    await running(3)
    const use = (unacked: number[]) => {
      for (const [i, count] of unacked.entries()) {
        const consumerChannel = consumerChannels[i]
        if (consumerChannel) consumerChannel.unacked = count
      }
      queueConsumer.retireSurplus()
      return consumerChannels.map(({ state }) => state)
    }
    const all = ['running', 'running', 'running']
    expect(use([4, 1, 0])).toEqual(all)
    now += 60_000
    expect(use([4, 0, 0])).toEqual(all)
    now += 4_999
    expect(use([4, 1, 0])).toEqual(all)
    expect(use([4, 0, 0])).toEqual(all)
    now += 5_000
    expect(use([2, 0, 1])).toEqual(['running', 'draining', 'running'])
    if (consumerChannels[1]) consumerChannels[1].state = 'running'
    now += 4_999
    expect(use([0, 0, 0])).toEqual(all)
  })

  it('share the queue once RabbitMQ counts more than ours; not those that it may still count', async () => {
    await running(2)
    for (const consumerChannel of consumerChannels) consumerChannel.isCounted = true
    const counted = (count: number) => {
      queueConsumer.consumersCounted(count)
      return queueConsumer.isShared
    }
    expect(counted(2)).toBe(false)
    expect(counted(3)).toBe(true)
    await consumerChannels[0]?.cancel()
    // One of the two may be the cancelled one, which a quorum queue counts until it is drained.
    expect(counted(2)).toBe(true)
    expect(counted(1)).toBe(false)
    expect(counted(2)).toBe(false)
    expect(counted(3)).toBe(true)
    expect(queueConsumer.consumersAskedAt).toBe(now)
  })

  it('are as large as the demand, or a quarter of the leases, beside others or after a surplus', async () => {
    const size = (waitedFor = 0) => queueConsumer.prefetchOfNext(waitedFor)
    expect(size()).toBe(PREFETCH)
    queueConsumer.consumersCounted(1)
    expect([size(), size(2), size(100)]).toEqual([1, 2, PREFETCH])
    queueConsumer.asked(3)
    expect(size(1)).toBe(3)
    now += 300
    expect(size()).toBe(1)
    await running(1)
    if (consumerChannels[0]) consumerChannels[0].unacked = 8
    expect(size()).toBe(2)
    queueConsumer.consumersCounted(0)
    expect(size()).toBe(PREFETCH)
    queueConsumer.beModest()
    expect(size()).toBe(2)
    // The demand fills whole consumer channels again.
    expect([size(4), size()]).toEqual([PREFETCH, PREFETCH])
    queueConsumer.beModest()
    await running(2)
    // Small consumer channels must not use up the number of consumer channels.
    expect(size()).toBe(PREFETCH)
  })

  it('have held a delivery since it was buffered, also when others go before it', () => {
    queueConsumer.add(delivery(2))
    now += 100
    queueConsumer.add(delivery(1))
    now += 50
    expect([150, 151].map((ms) => queueConsumer.hasHeld(ms))).toEqual([true, false])
    // The delivery that goes next is spared.
    expect([150, 151].map((ms) => queueConsumer.hasHeld(ms, 1))).toEqual([true, false])
    expect(queueConsumer.hasHeld(0, 2)).toBe(false)
    queueConsumer.takeInto([], 1)
    expect([queueConsumer.hasHeld(150), queueConsumer.hasHeld(0, 1)]).toEqual([true, false])
  })

  it('are given up, and opened again later, for what no fetch may start beside other consumers', async () => {
    const returned: number[] = []
    const setAside = (orders: number[], dueInMs = 60_000) => {
      const taken: LiveDelivery[] = []
      for (const order of orders) queueConsumer.add(delivery(order, consumerChannels[0]))
      queueConsumer.takeInto(taken, orders.length)
      for (const one of taken)
        queueConsumer.setAside(one, () => {
          returned.push(one.order)
          return now + dueInMs
        })
    }
    const delayAfterReturn = () => {
      queueConsumer.recall()
      queueConsumer.giveBack()
      return queueConsumer.restartDelayMs
    }
    await running(1)
    setAside([2, 1])
    expect([queueConsumer.hasSetAside(0), queueConsumer.hasSetAside(1)]).toEqual([true, false])
    // Nobody else would start them, so a fetch that comes opens a consumer at once.
    expect(delayAfterReturn()).toBe(0)
    expect(consumerChannels[0]?.returned).toEqual([1, 2])
    expect(new Set(returned)).toEqual(new Set([1, 2]))
    expect(queueConsumer.setAsideCount).toBe(0)
    queueConsumer.consumersCounted(5)
    setAside([3, 4])
    expect(delayAfterReturn()).toBe(1_000)
    now += 1_000
    setAside([3, 4], 600)
    expect(delayAfterReturn()).toBe(600)
    now += 600
    setAside([3, 4], 20)
    expect(delayAfterReturn()).toBe(250)
    now += 250
    queueConsumer.add(delivery(5))
    queueConsumer.takeInto([], 1)
    setAside([6, 7])
    // A fetch has got something meanwhile.
    expect(delayAfterReturn()).toBe(2)
    now += 1_000
    setAside(Array.from({ length: 3_000 }, (_, i) => i))
    expect(delayAfterReturn()).toBe(3_000)
  })

  it('have set something aside for long only when no further consumer has been opened for it', async () => {
    await running(1)
    const one = delivery(1)
    queueConsumer.setAside(one, () => now)
    now += 150
    expect(queueConsumer.hasSetAside(150)).toBe(true)
    await running(2)
    expect(queueConsumer.hasSetAside(150)).toBe(false)
    now += 149
    expect(queueConsumer.hasSetAside(150)).toBe(false)
    now += 1
    expect(queueConsumer.hasSetAside(150)).toBe(true)
    queueConsumer.nourish()
    expect(queueConsumer.hasSetAside(150)).toBe(false)
    now += IDLE_MS - 300
    expect(queueConsumer.hasSetAside(150)).toBe(true)
    queueConsumer.forgetSetAside(one)
    expect(queueConsumer.hasSetAside(0)).toBe(false)
  })

  it('are idle when nobody has fetched for idleMs', () => {
    queueConsumer.touch()
    now += IDLE_MS - 1
    expect(queueConsumer.isIdle).toBe(false)
    now += 1
    expect(queueConsumer.isIdle).toBe(true)
  })
})
