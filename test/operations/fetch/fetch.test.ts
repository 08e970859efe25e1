import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { Delivery, Settled } from '../../../src/broker/broker.ts'
import type { JobRow } from '../../../src/job/job.ts'
import type { FetchRequest } from '../../../src/job/request.ts'
import { MemoryShare, UNCOUNTED_BYTES, WorkMemory } from '../../../src/memory.ts'
import { fetch } from '../../../src/operations/fetch/fetch.ts'
import { heapOfText } from '../../../src/schemas/json/json-heap.ts'
import {
  failAttempt,
  fenceOf,
  fetched,
  NOW,
  pushed,
  rowOf,
  settleLazily,
} from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import {
  onToldBroker,
  type ToldStage,
  toldArrival,
  toldDelivery,
} from '../job-messages/told-broker.ts'

const harness = ledgerOfTest()
let stage: ToldStage
/** What the operation did with its deliveries, in order. */
let told: string[]
/** The deliveries in the consumers' buffers, which FETCH takes from the front. */
let buffered: Delivery[]
/** How many deliveries the buffers hand out per call. */
let perTake: number
/** The arguments of each call of `take`. */
let asked: { count: number; takenBytes: number | undefined }[]
/** Runs before the second `take` answers. */
let beforeSecondTake: () => unknown

beforeEach(async () => {
  told = []
  buffered = []
  perTake = Number.POSITIVE_INFINITY
  asked = []
  beforeSecondTake = () => {}
  stage = onToldBroker(harness, {
    take: async ({ count, takenBytes }) => {
      asked.push({ count, takenBytes })
      if (asked.length === 2) await beforeSecondTake()
      return buffered.splice(0, perTake)
    },
    peek: (_, limit) => buffered.slice(0, limit),
    takeThese: (_, deliveries) => {
      buffered = buffered.filter((delivery) => !deliveries.includes(delivery))
      return [...deliveries]
    },
    putBack: (deliveries) => void told.push(`put back ${deliveries.length}`),
    park: (_, until) => void told.push(`park ${until}`),
  })
})

/** The job message of an attempt, as it comes from the queue. */
function arriving(id: string, attempt = 1, settles: Settled = 'settled'): Delivery {
  const delivery = Object.assign(toldArrival(told, { id, attempt, settles }), { size: SIZE })
  buffered.push(delivery)
  return delivery
}
const SIZE = 7
const fetchNow = (given: { memory?: MemoryShare } & Partial<FetchRequest> = {}) => {
  const { memory, ...over } = given
  const context = { requestId: 'req_1', ...(memory && { memory }) }
  const { signal } = new AbortController()
  return fetch(stage.deps, { queues: ['default'], count: 10, ...over }, context, signal)
}
const now = async (id: string): Promise<JobRow> => {
  await settleLazily(harness.ledger)
  return await rowOf(harness.ledger, id)
}

it('FETCH no longer counts a job message as unsure once it has been delivered', async () => {
  const { id } = await pushed(harness.ledger)
  stage.deps.jobMessages.unsure.add(id)
  arriving(id)
  await fetchNow()
  expect(stage.deps.jobMessages.unsure.has(id)).toBe(false)
})

it('FETCH no longer counts the job message of a cancelled job as unsure once it has been delivered', async () => {
  const { id } = await pushed(harness.ledger)
  await harness.ledger.cancel(id, NOW)
  stage.deps.jobMessages.unsure.add(id)
  arriving(id)
  expect(await fetchNow()).toEqual([])
  expect(stage.deps.jobMessages.unsure.has(id)).toBe(false)
})

it('FETCH holds the delivery of a job that it starts, unacknowledged', async () => {
  const { id } = await pushed(harness.ledger)
  const delivery = arriving(id)
  expect(await fetchNow()).toMatchObject([{ id, state: 'active' }])
  expect(stage.deps.jobMessages.held.get(id)).toBe(delivery)
  expect(told).toEqual([])
})

describe('FETCH, on a second delivery of an active job', () => {
  it.each([
    ['keeps the first while its channel is open', true],
    ['forgets the first once its channel is closed', false],
  ])('acknowledges the second delivery, and %s', async (_, isLive) => {
    const { id } = await fetched(harness.ledger)
    const first = toldDelivery(told, { isLive })
    stage.deps.jobMessages.held.set(id, first)
    arriving(id)
    expect(await fetchNow()).toEqual([])
    expect(told).toEqual(['ack'])
    expect(stage.deps.jobMessages.held.get(id)).toBe(isLive ? first : undefined)
    expect(await now(id)).toMatchObject({ state: 'active', holder: 'ledger' })
  })

  it('still counts the job message as out when the second delivery was lost before its acknowledgement', async () => {
    const { id } = await fetched(harness.ledger)
    arriving(id, 1, 'lost')
    await fetchNow()
    await harness.ledger.complete(id, {}, { now: NOW, result: null })
    expect(await now(id)).toMatchObject({ state: 'completed', messageOut: true })
  })

  it('leaves the delivery alone when it is the one that is already held', async () => {
    const { id } = await fetched(harness.ledger)
    stage.deps.jobMessages.held.set(id, arriving(id))
    await fetchNow()
    expect(told).toEqual([])
    expect(await now(id)).toMatchObject({ state: 'active', holder: 'gateway' })
  })
})

describe('FETCH, on the job message of a cancelled job', () => {
  it.each(['settled', 'lost'] as const)(
    'acknowledges it, and notes whether the job message is still out: acknowledgement %s',
    async (settles) => {
      const { id } = await pushed(harness.ledger)
      await harness.ledger.cancel(id, NOW)
      arriving(id, 1, settles)
      expect(await fetchNow()).toEqual([])
      expect(told).toEqual(['ack'])
      expect(await now(id)).toMatchObject({ messageOut: settles === 'lost' })
    },
  )
})

/** Delivers the job message of a retry `delayMs` before the retry is due. */
async function arrivingEarly(delayMs: number): Promise<string> {
  const job = await fetched(harness.ledger)
  const to = { to: 'retryable', dueAt: NOW + delayMs, delayMs, retryQueueMs: null } as const
  const record = { now: NOW, error: null, errors: null, isMessageBack: true }
  await failAttempt(harness.ledger, job.id, fenceOf(job), { ...record, ...to })
  arriving(job.id, 2)
  return job.id
}

it('FETCH acknowledges a job message that comes 90 s early: the relay publishes another from the outbox', async () => {
  const id = await arrivingEarly(90_000)
  expect(await fetchNow()).toEqual([])
  expect([told, stage.woken]).toEqual([['ack'], 1])
  expect((await now(id)).outbox).not.toBeNull()
})

it('FETCH parks a job message that comes 50 ms early until it is due', async () => {
  await arrivingEarly(50)
  expect(await fetchNow()).toEqual([])
  expect(told).toEqual([`park ${NOW + 50}`])
})

it('FETCH parks a job message whose batch is not completely published', async () => {
  const { id } = await pushed(harness.ledger)
  stage.deps.jobMessages.staging.add(id)
  arriving(id)
  expect(await fetchNow()).toEqual([])
  expect(told).toEqual(['park null'])
  expect(await now(id)).toMatchObject({ state: 'available', attempt: 0 })
})

it('FETCH takes no more than 100 deliveries, even when asked for 101', async () => {
  await fetchNow({ count: 101 })
  expect(asked).toMatchObject([{ count: 100 }])
})

it('FETCH without a wait takes again after it found only the job message of a cancelled job', async () => {
  const over = await pushed(harness.ledger)
  await harness.ledger.cancel(over.id, NOW)
  const { id } = await pushed(harness.ledger)
  let ms = 0
  stage.deps.clock.now = () => NOW + ms++
  perTake = 1
  arriving(over.id)
  arriving(id)
  expect(await fetchNow()).toMatchObject([{ id }])
})

describe('FETCH, after it took job messages of cancelled jobs', () => {
  const cancelledAndPushed = async (count: number) => {
    const over = await pushed(harness.ledger)
    await harness.ledger.cancel(over.id, NOW)
    arriving(over.id)
    const ids: string[] = []
    for (let n = 0; n < count; n++) {
      const { id } = await pushed(harness.ledger)
      arriving(id)
      ids.push(id)
    }
    return ids
  }

  it('takes again, so that the answer has as many jobs as are available', async () => {
    const ids = await cancelledAndPushed(3)
    perTake = 2
    expect((await fetchNow({ count: 3 })).map(({ id }) => id)).toEqual(ids)
    expect(asked).toEqual([
      { count: 3, takenBytes: undefined },
      { count: 2, takenBytes: 2 * SIZE },
    ])
  })

  it('passes over all that are buffered at once, and leaves the other jobs where they are', async () => {
    const ids: string[] = []
    for (let n = 0; n < 3; n++) {
      await cancelledAndPushed(0)
      ids.push(...(await cancelledAndPushed(1)))
    }
    perTake = 1
    expect((await fetchNow({ count: 1 })).map(({ id }) => id)).toEqual(ids.slice(0, 1))
    expect(asked).toHaveLength(2)
    expect(told).toEqual(['ack', 'ack', 'ack', 'ack', 'ack', 'ack'])
    expect(buffered.map(({ id }) => id)).toEqual(ids.slice(1))
  })

  it('gives back what can run again by the time that it is passed over', async () => {
    await cancelledAndPushed(0)
    perTake = 1
    const { id } = await pushed(harness.ledger)
    arriving(id)
    const standing = await harness.ledger.read.standing(id)
    if (standing === null) throw new Error('the job is gone')
    // As a read shows it that was made before the retry.
    const earlier = { ...standing, state: 'cancelled' as const }
    vi.spyOn(harness.ledger.read, 'standings').mockResolvedValueOnce(new Map([[id, earlier]]))
    expect(await fetchNow({ count: 1 })).toEqual([])
    expect(await now(id)).toMatchObject({ state: 'available', attempt: 0 })
  })

  it('counts only takes that brought a job towards takenBytes', async () => {
    const over = await pushed(harness.ledger)
    await harness.ledger.cancel(over.id, NOW)
    perTake = 1
    arriving(over.id)
    beforeSecondTake = () => {
      perTake = 2
    }
    await cancelledAndPushed(0)
    const { id } = await pushed(harness.ledger)
    arriving(id)
    expect(await fetchNow({ count: 2 })).toMatchObject([{ id }])
    expect(asked).toEqual([
      { count: 2, takenBytes: undefined },
      { count: 2, takenBytes: undefined },
    ])
  })

  it('stops taking again after one second', async () => {
    await cancelledAndPushed(1)
    stage.deps.clock.now = () => NOW + 1_001 * asked.length
    perTake = 2
    for (let n = 0; n < 3; n++) await cancelledAndPushed(1)
    expect(await fetchNow({ count: 10 })).toHaveLength(2)
    expect(asked).toHaveLength(2)
  })

  it('still answers the jobs it has when the ledger fails during the second take', async () => {
    const [id = ''] = await cancelledAndPushed(1)
    arriving((await pushed(harness.ledger)).id)
    perTake = 2
    beforeSecondTake = () => harness.ledger.close()
    expect(await fetchNow({ count: 2 })).toMatchObject([{ id }])
    expect(told).toEqual(['ack', 'put back 1'])
    await harness.reopen()
  })

  it('still answers the jobs it has when its worker is told to stop during the second take', async () => {
    const [id = ''] = await cancelledAndPushed(1)
    arriving((await pushed(harness.ledger)).id)
    perTake = 2
    let isTold = false
    beforeSecondTake = () => {
      isTold = true
    }
    Object.assign(stage.deps, { workers: { fetched: () => !isTold } })
    expect(await fetchNow({ count: 2, worker_id: 'w' })).toMatchObject([{ id }])
    expect(told).toEqual(['ack', 'put back 1'])
  })
})

it('FETCH answers jobs in the order of the requested queues, whichever take brought them', async () => {
  const over = await pushed(harness.ledger)
  await harness.ledger.cancel(over.id, NOW)
  const right = await pushed(harness.ledger, { queue: 'right' })
  const left = await pushed(harness.ledger)
  arriving(over.id)
  buffered.push(toldArrival(told, { id: right.id, queue: 'right' }))
  arriving(left.id)
  perTake = 2
  const jobs = await fetchNow({ count: 2, queues: ['default', 'right'] })
  expect(jobs.map(({ id }) => id)).toEqual([left.id, right.id])
})

it('FETCH puts back a delivery that there is no memory for, and fails with 503', async () => {
  const { id } = await pushed(harness.ledger)
  const content = Buffer.alloc(2 * UNCOUNTED_BYTES, 'x')
  Object.assign(arriving(id), { size: content.length, message: { headers: {}, content } })
  const all = new WorkMemory(1_000_000)
  new MemoryShare(all).take(499_999)
  await expect(fetchNow({ memory: new MemoryShare(all) })).rejects.toMatchObject({ status: 503 })
  expect(told).toEqual(['put back 1'])
})

describe('FETCH, with memory for one of two deliveries', () => {
  const content = Buffer.alloc(2 * UNCOUNTED_BYTES, 'x')
  const large = (id: string) =>
    Object.assign(arriving(id), { size: content.length, message: { headers: {}, content } })
  const forOne = () => {
    const all = new WorkMemory(2 * heapOfText(content) + 100)
    new MemoryShare(all).take(1)
    return new MemoryShare(all)
  }

  it('answers the first job and puts back the second delivery', async () => {
    const { id } = await pushed(harness.ledger)
    large(id)
    large((await pushed(harness.ledger)).id)
    expect(await fetchNow({ memory: forOne() })).toMatchObject([{ id }])
    expect(told).toEqual(['put back 1'])
    expect(asked).toHaveLength(1)
  })

  it('takes again when the first delivery was the job message of a cancelled job', async () => {
    const over = await pushed(harness.ledger)
    await harness.ledger.cancel(over.id, NOW)
    const { id } = await pushed(harness.ledger)
    large(over.id)
    large(id)
    beforeSecondTake = () => large(id)
    expect(await fetchNow({ memory: forOne() })).toMatchObject([{ id }])
    expect(told).toEqual(['put back 1', 'ack'])
  })
})

it('FETCH takes back the start of a rate-limited job when the ledger cannot be written', async () => {
  const { id } = await pushed(harness.ledger)
  const content = Buffer.from(JSON.stringify({ type: 't', rate_limit: { max_per_second: 0.01 } }))
  const message = { headers: {}, content }
  const limited = { size: content.length, priority: 0, order: 1, message }
  Object.assign(arriving(id), { mayBeLimited: () => true, ...limited })
  const seen: string[] = []
  const startLimits = { start: () => seen.push('start') > 0, takeBack: () => seen.push('back') }
  Object.assign(stage.deps, { startLimits })
  await harness.ledger.close()
  await expect(fetchNow()).rejects.toMatchObject({ status: 503 })
  expect(seen).toEqual(['start', 'back'])
  await harness.reopen()
})

it('FETCH puts back its deliveries when the ledger cannot be written', async () => {
  const { id } = await pushed(harness.ledger)
  arriving(id)
  arriving(id)
  await harness.ledger.close()
  await expect(fetchNow()).rejects.toMatchObject({ status: 503 })
  expect(told).toEqual(['put back 2'])
  await harness.reopen()
})

it('FETCH frees the memory of deliveries that it dropped', async () => {
  const over = await pushed(harness.ledger)
  await harness.ledger.cancel(over.id, NOW)
  const content = Buffer.alloc(2 * UNCOUNTED_BYTES, 'x')
  Object.assign(arriving(over.id), { size: content.length, message: { headers: {}, content } })
  const all = new WorkMemory(1_000_000)
  let ms = 0
  stage.deps.clock.now = () => NOW + ms++
  expect(await fetchNow({ memory: new MemoryShare(all) })).toEqual([])
  expect(asked).toHaveLength(2)
  expect(all.taken).toBe(0)
})

describe('FETCH, of a queue that is paused while it is under way', () => {
  const pause = () => harness.ledger.pauses.pause('default', NOW)

  it('claims nothing after the pause is committed, and puts the deliveries back', async () => {
    const { id } = await pushed(harness.ledger)
    arriving(id)
    // The pause was requested before the claim, and is committed with it.
    const paused = pause()
    expect(await fetchNow()).toEqual([])
    await paused
    expect(told).toEqual(['put back 1'])
    expect(await now(id)).toMatchObject({ state: 'available', attempt: 0 })
    expect(stage.events).toEqual([])
  })

  it('gives back what it had claimed before the pause, and answers the jobs of other queues', async () => {
    const other = await pushed(harness.ledger, { queue: 'other' })
    const { id } = await pushed(harness.ledger)
    const over = await pushed(harness.ledger)
    await harness.ledger.cancel(over.id, NOW)
    const delivery = arriving(id)
    arriving(over.id)
    perTake = 2
    buffered.push(
      Object.assign(toldArrival(told, { id: other.id, queue: 'other' }), { size: SIZE }),
    )
    beforeSecondTake = pause
    const jobs = await fetchNow({ queues: ['default', 'other'] })
    expect(jobs.map((job) => job.id)).toEqual([other.id])
    expect(await now(id)).toMatchObject({ state: 'available', attempt: 0, workerId: null })
    expect(told).toEqual(['ack', 'put back 1'])
    expect(stage.deps.jobMessages.held.get(id)).not.toBe(delivery)
  })
})
