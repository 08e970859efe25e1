import type { Channel } from 'amqplib'
import { beforeEach, expect, it, vi } from 'vitest'
import type { ScratchChannel } from '../../../src/broker/connection/temporary-channel.ts'
import { DepthSampler } from '../../../src/broker/monitoring/depth-sampler.ts'
import { createNames } from '../../../src/broker/names.ts'

/** The ledger's numbers of available jobs, one per question; the last one stays. */
let available: number[]
let held: number
let queues: string[]
let noted: string[]
/** Messages in the queue; null: the queue does not exist. */
let ready: number | null
let isSame: boolean
let now: number
let asked: number
let sampler: DepthSampler
const warn = vi.fn()
beforeEach(() => {
  available = [0]
  held = 0
  queues = ['q']
  noted = []
  ready = 0
  isSame = true
  now = 1_000
  asked = 0
  warn.mockClear()
  sampler = new DepthSampler({
    names: createNames(''),
    now: () => now,
    queues: () => queues,
    available: () => (available.length > 1 ? available.shift() : available[0]) ?? 0,
    held: () => held,
    isSame: async () => isSame,
    drift: {
      begin: () => {},
      isOfInterest: (queue) => queue === 'q149',
      note: async (queue) => void noted.push(queue),
    },
    logger: { warn },
  })
})

const channel = {
  async checkQueue() {
    asked += 1
    if (ready === null) throw Object.assign(new Error('NOT_FOUND'), { code: 404 })
    return { messageCount: ready, consumerCount: 0 }
  },
} as unknown as Channel
const scratch = {
  run: <T>(call: (asked: Channel) => Promise<T>) => call(channel),
} as unknown as ScratchChannel

async function missing(): Promise<number> {
  await sampler.look(scratch)
  return sampler.missing('q')
}

it('the sampler reports missing job messages when they are over a hundred and over a tenth of the jobs', async () => {
  available = [200]
  ready = 100
  expect(await missing()).toBe(0)
  ready = 99
  expect(await missing()).toBe(101)
  available = [2_000]
  ready = 1_800
  expect(await missing()).toBe(0)
  ready = 1_799
  expect(await missing()).toBe(201)
  expect(sampler.warnings()).toMatchObject([{ code: 'silent_acks', details: { missing: 201 } }])
})

it('the sampler logs for each queue when job messages begin to be missing', async () => {
  available = [200]
  await missing()
  await missing()
  const fields = { code: 'silent_acks', queue: 'q', missing: 200 }
  expect(warn.mock.calls).toEqual([[fields, sampler.warnings()[0]?.message]])
  ready = 200
  await missing()
  expect(warn).toHaveBeenCalledTimes(1)
  ready = 0
  await missing()
  expect(warn).toHaveBeenCalledTimes(2)
})

it('the sampler ignores job messages that the gateway holds, and jobs that came or went during the check', async () => {
  available = [300]
  held = 200
  expect(await missing()).toBe(0)
  held = 0
  available = [300, 50]
  expect(await missing()).toBe(0)
  available = [150, 300]
  ready = 50
  expect(await missing()).toBe(0)
})

it('the sampler asks about queues without many jobs for the drift watch, but about few without any', async () => {
  available = [100]
  queues = Array.from({ length: 150 }, (_, i) => `q${i}`)
  await missing()
  expect(asked).toBe(101)
  expect(noted.slice(-1)).toEqual(['q149'])
  expect(sampler.warnings()).toEqual([])
})

it('the sampler keeps a sample for 15 s, also when the queue is gone', async () => {
  available = [300]
  expect(await missing()).toBe(300)
  ready = null
  now += 15_000
  expect(await missing()).toBe(300)
  now += 1
  expect(sampler.missing('q')).toBe(0)
  expect(sampler.warnings()).toEqual([])
})

it('the sampler drops a sample when the job messages are back, or the jobs are gone', async () => {
  available = [300]
  expect(await missing()).toBe(300)
  ready = 300
  expect(await missing()).toBe(0)
  ready = 0
  expect(await missing()).toBe(300)
  available = [10]
  expect(await missing()).toBe(0)
})

it('the sampler reports nothing for a queue that has taken the place of another', async () => {
  available = [300]
  isSame = false
  expect(await missing()).toBe(0)
})
