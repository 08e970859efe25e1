import { expect, it, onTestFinished, vi } from 'vitest'
import type { ConsumerChannel } from '../../../src/broker/consume/consumer-channel.ts'
import type { LiveDelivery } from '../../../src/broker/consume/delivery.ts'
import { MAX_TAKEN_BYTES, type QueueConsumer } from '../../../src/broker/consume/queue-consumer.ts'
import { WaitingFetches } from '../../../src/broker/consume/waiting-fetches.ts'
import { idsOf, queueConsumerOf, request } from '../harness.ts'

/** A queueConsumer whose consumer is opening for as long as the test takes. */
function startingFeed(queue: string): QueueConsumer {
  const consumerChannel = { state: 'opening', unacked: 0, open: () => new Promise(() => {}) }
  const queueConsumer = queueConsumerOf(queue, () => consumerChannel as unknown as ConsumerChannel)
  queueConsumer.nourish()
  return queueConsumer
}

function lineOf(...queues: string[]) {
  const queueConsumers = new Map(queues.map((queue) => [queue, startingFeed(queue)]))
  const known = (queue: string) => queueConsumers.get(queue)
  const line = new WaitingFetches({
    clock: { now: () => 0, wall: () => 0 },
    isPaused: () => false,
    mayConsume: () => true,
    queueConsumerOf: known,
    touched: known,
    nourish: () => {},
  })
  return { line, queueConsumers }
}

it('a fetch leaves a delivery to an earlier fetch that still waits for another one', async () => {
  const { line, queueConsumers } = lineOf('a', 'b', 'c')
  const arrive = (queue: string, id: string) => {
    const queueConsumer = queueConsumers.get(queue)
    queueConsumer?.add({ id, priority: 0, order: 1, size: 1 } as LiveDelivery)
    if (queueConsumer) line.dispatchSoon(queueConsumer)
  }
  const wants = { count: 2, hasClaimable: (_: string, beyond = 0) => beyond < 1 }
  arrive('b', 'of b')
  const first = line.take(request(['a', 'b'], wants))
  const second = line.take(request(['b', 'c'], wants))
  arrive('c', 'of c')
  expect(idsOf(await second)).toEqual(['of c'])
  arrive('a', 'of a')
  expect(idsOf(await first)).toEqual(['of a', 'of b'])
})

it('a fetch that has earlier deliveries waits 100 ms for a job that the ledger knows, and for nothing else', async () => {
  const { line } = lineOf('a')
  const wants = (left: number) => {
    const hasClaimable = (_: string, beyond = 0) => left > beyond
    return request(['a'], { count: 2, waitMs: 0, takenBytes: 1, hasClaimable })
  }
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  expect(await line.take(wants(0))).toEqual([])
  let isOver = false
  const waiting = line.take(wants(1)).finally(() => {
    isOver = true
  })
  await vi.advanceTimersByTimeAsync(99)
  expect(isOver).toBe(false)
  await vi.advanceTimersByTimeAsync(1)
  expect(await waiting).toEqual([])
})

it('a fetch that has earlier deliveries waits for a job that goes before the one that is here', async () => {
  const { line, queueConsumers } = lineOf('a', 'b')
  queueConsumers.get('b')?.add({ id: 'of b', priority: 0, order: 1, size: 1 } as LiveDelivery)
  // The delivery of `b` would be enough, but `a` has a starting consumer and a job that the ledger knows.
  const hasClaimable = (queue: string) => queue === 'a'
  const take = (takenBytes: number) =>
    line.take(request(['a', 'b'], { count: 1, waitMs: 0, takenBytes, hasClaimable }))
  const waiting = take(1)
  queueConsumers.get('a')?.add({ id: 'of a', priority: 0, order: 2, size: 1 } as LiveDelivery)
  line.dispatchSoon(queueConsumers.get('a') as QueueConsumer)
  expect(idsOf(await waiting)).toEqual(['of a'])
})

it('a fetch gets no more bytes than one answer may hold, including what it has already', async () => {
  const { line, queueConsumers } = lineOf('a')
  queueConsumers.get('a')?.add({ id: 'of a', priority: 0, order: 1, size: 1 } as LiveDelivery)
  const take = (takenBytes: number) =>
    line.take(request(['a'], { count: 1, waitMs: 0, takenBytes, hasClaimable: () => false }))
  expect(await take(MAX_TAKEN_BYTES)).toEqual([])
  expect(idsOf(await take(MAX_TAKEN_BYTES - 1))).toEqual(['of a'])
})
