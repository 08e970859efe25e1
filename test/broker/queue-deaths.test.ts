import { beforeEach, expect, it } from 'vitest'
import type { Presence } from '../../src/broker/broker.ts'
import { QueueDeaths } from '../../src/broker/queue-deaths.ts'

let now: number
let asked: number
let answer: () => Promise<Presence> | Presence
let deaths: QueueDeaths
beforeEach(() => {
  now = 1_000_000
  asked = 0
  answer = () => 'exists'
  deaths = new QueueDeaths({
    now: () => now,
    probe: async () => {
      asked += 1
      return answer()
    },
  })
})

it('a queue that is there is full, and one that nobody can be asked for is not taken for gone', async () => {
  expect(await deaths.isGone('q')).toBe(false)
  now += 1_000
  answer = () => 'unavailable'
  expect(await deaths.isGone('q')).toBe(false)
  now += 1_000
  answer = () => 'missing'
  expect(await deaths.isGone('q')).toBe(true)
})

it('RabbitMQ is asked once in a second, however many publishes were refused', async () => {
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

it('one that was missed a moment ago was gone, whatever is there by now', async () => {
  deaths.missed('q')
  now += 4_999
  expect([await deaths.isGone('q'), asked]).toEqual([true, 0])
  now += 1_000
  expect([await deaths.isGone('q'), asked]).toEqual([false, 1])
})

it('nor is it there where it was missed while that was asked', async () => {
  answer = () => {
    deaths.missed('q')
    return 'exists'
  }
  expect(await deaths.isGone('q')).toBe(true)
})
