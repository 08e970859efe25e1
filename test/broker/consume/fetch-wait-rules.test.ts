import { beforeEach, expect, it } from 'vitest'
import type {
  ConsumerChannel,
  ConsumerState,
} from '../../../src/broker/consume/consumer-channel.ts'
import type { LiveDelivery } from '../../../src/broker/consume/delivery.ts'
import { awaitedFeeds, nextLookMs } from '../../../src/broker/consume/fetch-wait-rules.ts'
import { MAX_TAKEN_BYTES } from '../../../src/broker/consume/queue-consumer.ts'
import type { Waiter } from '../../../src/broker/consume/waiter.ts'
import { queueConsumerOf } from '../harness.ts'

let now: number
beforeEach(() => {
  now = 1_000
})

/** A consumer that RabbitMQ accepts when the test calls `run`. */
class FakeConsumerChannel {
  state: ConsumerState = 'opening'
  wasAccepted = false
  unacked = 0
  isFull = false
  #onRunning = () => {}

  open(): Promise<void> {
    return new Promise((resolve) => {
      this.#onRunning = resolve
    })
  }

  async run(): Promise<void> {
    this.state = 'running'
    this.wasAccepted = true
    this.#onRunning()
    await Promise.resolve()
  }

  isIn(state: ConsumerState): boolean {
    return this.state === state
  }
}

function newFeed(queue: string) {
  const consumerChannels: FakeConsumerChannel[] = []
  const newConsumerChannel = () => {
    const consumerChannel = new FakeConsumerChannel()
    consumerChannels.push(consumerChannel)
    return consumerChannel as unknown as ConsumerChannel
  }
  return { queueConsumer: queueConsumerOf(queue, newConsumerChannel, () => now), consumerChannels }
}

/** A queue with a delivery here, another with a job that only the ledger knows; a fetch wants both. */
async function twoQueues() {
  const [here, other] = [newFeed('here'), newFeed('other')]
  here.queueConsumer.nourish()
  await here.consumerChannels[0]?.run()
  here.queueConsumer.add({ id: 'i', priority: 0, order: 1, size: 1 } as LiveDelivery)
  Object.assign(here.consumerChannels[0] ?? {}, { unacked: 1 })
  const waiter = {
    ...{ queues: ['here', 'other'], count: 2, since: now, isLongPoll: false },
    ...{ putOffSince: null, hasLingered: false },
    hasClaimable: (_: string, beyond = 0) => beyond < 1,
  } as unknown as Waiter
  const awaited = () =>
    awaitedFeeds(waiter, (queue) => (queue === 'here' ? here.queueConsumer : other.queueConsumer))
  const look = () => nextLookMs(waiter, awaited(), now)
  return { other, awaited, look }
}

it('a fetch waits for the first delivery of a consumer, however long the consumer took to open', async () => {
  const { other, awaited, look } = await twoQueues()
  expect(look()).toBe(1)
  now += 150
  expect(look()).toBe(1)
  await other.consumerChannels[0]?.run()
  now += 1
  expect(awaited()).toEqual([other.queueConsumer])
  expect(look()).toBe(1)
  now += 250
  expect(look()).toBe(0)
  expect(other.queueConsumer.mayReceive).toBe(false)
})

it('a fetch does not wait for a consumer that RabbitMQ has not answered for a second', async () => {
  const { other, awaited } = await twoQueues()
  expect(awaited()).toEqual([other.queueConsumer])
  now += 999
  expect(awaited()).toEqual([other.queueConsumer])
  now += 1
  expect(awaited()).toEqual([])
  await other.consumerChannels[0]?.run()
  expect(awaited()).toEqual([other.queueConsumer])
})

it('a fetch that waited for the look-up of a queue does not mark it as one that brings nothing', async () => {
  const { other, look } = await twoQueues()
  other.queueConsumer.exists = false
  other.queueConsumer.isLookedUp = true
  expect(look()).toBe(1)
  now += 1_000
  expect(look()).toBe(0)
  Object.assign(other.queueConsumer, { exists: true, isLookedUp: false })
  other.queueConsumer.nourish()
  expect(other.queueConsumer.mayReceive).toBe(true)
})

it('a fetch that has earlier deliveries waits for a new consumer when the ledger knows of more jobs', async () => {
  const { queueConsumer, consumerChannels } = newFeed('young')
  queueConsumer.nourish()
  await consumerChannels[0]?.run()
  let left = 1
  const wanted = {
    ...{ queues: ['young'], count: 2, since: now },
    hasClaimable: (_: string, beyond = 0) => left > beyond,
  }
  const awaited = (takenBytes?: number) =>
    awaitedFeeds(
      { ...wanted, ...(takenBytes !== undefined && { takenBytes }) },
      () => queueConsumer,
    )
  expect(awaited(1)).toEqual([queueConsumer])
  expect(awaited(MAX_TAKEN_BYTES)).toEqual([])
  expect(awaited()).toEqual([])
  left = 0
  expect(awaited(1)).toEqual([])
  left = 1
  // The job is leased, and the time for the first deliveries of the consumer is over.
  Object.assign(consumerChannels[0] ?? {}, { unacked: 1 })
  now += 1_000
  expect(awaited(1)).toEqual([])
})
