import { beforeEach, expect, it } from 'vitest'
import type { Presence } from '../../../src/broker/broker.ts'
import { DeletedQueues } from '../../../src/broker/monitoring/deleted-queues.ts'

let now: number
let asked: number
let answer: () => Promise<Presence> | Presence
let deaths: DeletedQueues
beforeEach(() => {
  now = 1_000_000
  asked = 0
  answer = () => 'exists'
  deaths = new DeletedQueues({
    now: () => now,
    probe: async () => {
      asked += 1
      return answer()
    },
  })
})

it('isGone() is true only when RabbitMQ reports the queue missing, not when it exists or is unavailable', async () => {
  expect(await deaths.isGone('q')).toBe(false)
  now += 1_000
  answer = () => 'unavailable'
  expect(await deaths.isGone('q')).toBe(false)
  now += 1_000
  answer = () => 'missing'
  expect(await deaths.isGone('q')).toBe(true)
})

it('isGone() asks RabbitMQ once a second for each queue, however many publishes were refused', async () => {
  await Promise.all(Array.from({ length: 100 }, () => deaths.isGone('q')))
  now += 999
  await deaths.isGone('q')
  expect(asked).toBe(1)
  await deaths.isGone('other')
  expect(asked).toBe(2)
  now += 1
  await deaths.isGone('q')
  expect(asked).toBe(3)
})

it('isGone() is true for a queue that was missed a moment ago, without asking RabbitMQ', async () => {
  deaths.missed('q')
  now += 4_999
  expect([await deaths.isGone('q'), asked]).toEqual([true, 0])
  now += 1_000
  expect([await deaths.isGone('q'), asked]).toEqual([false, 1])
})

it('isGone() is true for a queue that is missed while RabbitMQ is asked', async () => {
  answer = () => {
    deaths.missed('q')
    return 'exists'
  }
  expect(await deaths.isGone('q')).toBe(true)
})
