import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Delivery, Settled } from '../../src/broker/broker.ts'
import type { JobRow } from '../../src/job/job.ts'
import type { FetchRequest } from '../../src/job/request.ts'
import { MemoryShare, UNCOUNTED_BYTES, WorkMemory } from '../../src/memory.ts'
import { fetch } from '../../src/operations/fetch.ts'
import { heapOfText } from '../../src/schemas/json-heap.ts'
import { fenceOf, fetched, NOW, pushed, rowOf, settleLazily } from '../ledger/harness.ts'
import { openSqliteHarness, type SqliteHarness } from '../ledger/sqlite-harness.ts'
import { onToldBroker, type ToldStage, toldArrival, toldDelivery } from './told-broker.ts'

let harness: SqliteHarness
let stage: ToldStage
/** What became of deliveries, in its order. */
let told: string[]
/** What the next FETCH takes from the buffers; then there is nothing. */
let buffered: Delivery[]
/** As many as RabbitMQ's deliveries come together. */
let atATime: number
/** What each FETCH has asked the buffers for. */
let asked: { count: number; takenBytes: number | undefined }[]
/** Before the buffers answer for the second time. */
let between: () => unknown

beforeEach(async () => {
  harness = await openSqliteHarness()
  told = []
  buffered = []
  atATime = Number.POSITIVE_INFINITY
  asked = []
  between = () => {}
  stage = onToldBroker(harness, {
    take: async ({ count, takenBytes }) => {
      asked.push({ count, takenBytes })
      if (asked.length === 2) await between()
      return buffered.splice(0, atATime)
    },
    putBack: (deliveries) => void told.push(`put back ${deliveries.length}`),
    park: (_, until) => void told.push(`park ${until}`),
  })
})
afterEach(() => harness.destroy())

/** The token of an attempt, as it comes from the queue. */
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
  return rowOf(harness.ledger, id)
}

it('is sure again of a token that was never confirmed, and has come', async () => {
  const { id } = await pushed(harness.ledger)
  stage.deps.tokens.unsure.add(id)
  arriving(id)
  await fetchNow()
  expect(stage.deps.tokens.unsure.has(id)).toBe(false)
})

it('and of one that has come to be dropped', async () => {
  const { id } = await pushed(harness.ledger)
  await harness.ledger.cancel(id, NOW)
  stage.deps.tokens.unsure.add(id)
  arriving(id)
  expect(await fetchNow()).toEqual([])
  expect(stage.deps.tokens.unsure.has(id)).toBe(false)
})

it('holds the delivery of what it has started', async () => {
  const { id } = await pushed(harness.ledger)
  const delivery = arriving(id)
  expect(await fetchNow()).toMatchObject([{ id, state: 'active' }])
  expect(stage.deps.tokens.held.get(id)).toBe(delivery)
  expect(told).toEqual([])
})

describe('a second delivery of a job that runs', () => {
  it.each([
    ['is still there', true],
    ['came over a channel that is gone', false],
  ])('is acknowledged, and the first one is kept where it %s', async (_, isLive) => {
    const { id } = await fetched(harness.ledger)
    const first = toldDelivery(told, { isLive })
    stage.deps.tokens.held.set(id, first)
    arriving(id)
    expect(await fetchNow()).toEqual([])
    expect(told).toEqual(['ack'])
    expect(stage.deps.tokens.held.get(id)).toBe(isLive ? first : undefined)
    expect(await now(id)).toMatchObject({ state: 'active', holder: 'ledger' })
  })

  it('is still out where it is gone before that: the end of the job does not take it for back', async () => {
    const { id } = await fetched(harness.ledger)
    arriving(id, 1, 'lost')
    await fetchNow()
    await harness.ledger.complete(id, {}, { now: NOW, result: null })
    expect(await now(id)).toMatchObject({ state: 'completed', tokenOut: true })
  })

  it('is none where it is the one that is held', async () => {
    const { id } = await fetched(harness.ledger)
    stage.deps.tokens.held.set(id, arriving(id))
    await fetchNow()
    expect(told).toEqual([])
    expect(await now(id)).toMatchObject({ state: 'active', holder: 'gateway' })
  })
})

describe('the token of a job that is over', () => {
  it.each(['settled', 'lost'] as const)(
    'is dropped, and back where that is %s',
    async (settles) => {
      const { id } = await pushed(harness.ledger)
      await harness.ledger.cancel(id, NOW)
      arriving(id, 1, settles)
      expect(await fetchNow()).toEqual([])
      expect(told).toEqual(['ack'])
      expect(await now(id)).toMatchObject({ tokenOut: settles === 'lost' })
    },
  )
})

/** The token of a retry comes so much before its time. */
async function arrivingEarly(delayMs: number): Promise<string> {
  const job = await fetched(harness.ledger)
  const to = { to: 'retryable', dueAt: NOW + delayMs, delayMs, rungMs: null } as const
  const record = { now: NOW, error: null, errors: null, isTokenBack: true }
  await harness.ledger.fail(job.id, fenceOf(job), { ...record, ...to })
  arriving(job.id, 2)
  return job.id
}

it('leaves a token that comes far too early to the ledger, and to the relay', async () => {
  const id = await arrivingEarly(90_000)
  expect(await fetchNow()).toEqual([])
  expect([told, stage.woken]).toEqual([['ack'], 1])
  expect((await now(id)).outbox).not.toBeNull()
})

it('keeps a token aside that comes a little early, until it is due', async () => {
  await arrivingEarly(50)
  expect(await fetchNow()).toEqual([])
  expect(told).toEqual([`park ${NOW + 50}`])
})

it('keeps the tokens of a batch aside that is not whole yet', async () => {
  const { id } = await pushed(harness.ledger)
  stage.deps.tokens.staging.add(id)
  arriving(id)
  expect(await fetchNow()).toEqual([])
  expect(told).toEqual(['park null'])
  expect(await now(id)).toMatchObject({ state: 'available', attempt: 0 })
})

it('takes no more than a hundred', async () => {
  await fetchNow({ count: 101 })
  expect(asked).toMatchObject([{ count: 100 }])
})

it('looks behind the tokens of jobs that are over, although it does not wait', async () => {
  const over = await pushed(harness.ledger)
  await harness.ledger.cancel(over.id, NOW)
  const { id } = await pushed(harness.ledger)
  let ms = 0
  stage.deps.clock.now = () => NOW + ms++
  atATime = 1
  arriving(over.id)
  arriving(id)
  expect(await fetchNow()).toMatchObject([{ id }])
})

describe('a token that is no job', () => {
  const overAndPushed = async (count: number) => {
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

  it('does not stand for one that is available', async () => {
    const ids = await overAndPushed(3)
    atATime = 2
    expect((await fetchNow({ count: 3 })).map(({ id }) => id)).toEqual(ids)
    expect(asked).toEqual([
      { count: 3, takenBytes: undefined },
      { count: 2, takenBytes: 2 * SIZE },
    ])
  })

  it('leaves no less room for jobs where none was beside it', async () => {
    const over = await pushed(harness.ledger)
    await harness.ledger.cancel(over.id, NOW)
    atATime = 1
    arriving(over.id)
    between = () => {
      atATime = 2
    }
    await overAndPushed(0)
    const { id } = await pushed(harness.ledger)
    arriving(id)
    expect(await fetchNow({ count: 2 })).toMatchObject([{ id }])
    expect(asked).toEqual([
      { count: 2, takenBytes: undefined },
      { count: 2, takenBytes: undefined },
      { count: 1, takenBytes: 2 * SIZE },
    ])
  })

  it('is looked behind no longer than a second', async () => {
    await overAndPushed(1)
    stage.deps.clock.now = () => NOW + 1_001 * asked.length
    atATime = 2
    for (let n = 0; n < 3; n++) await overAndPushed(1)
    expect(await fetchNow({ count: 10 })).toHaveLength(2)
    expect(asked).toHaveLength(2)
  })

  it('costs no job that is here already, where the ledger cannot be written then', async () => {
    const [id = ''] = await overAndPushed(1)
    arriving((await pushed(harness.ledger)).id)
    atATime = 2
    between = () => harness.ledger.close()
    expect(await fetchNow({ count: 2 })).toMatchObject([{ id }])
    expect(told).toEqual(['ack', 'put back 1'])
    await harness.reopen()
  })

  it('costs none either where the worker is told to stop meanwhile', async () => {
    const [id = ''] = await overAndPushed(1)
    arriving((await pushed(harness.ledger)).id)
    atATime = 2
    let isTold = false
    between = () => {
      isTold = true
    }
    Object.assign(stage.deps, { workers: { fetched: () => !isTold } })
    expect(await fetchNow({ count: 2, worker_id: 'w' })).toMatchObject([{ id }])
    expect(told).toEqual(['ack', 'put back 1'])
  })
})

it('answers by queues from left to right, in whatever round they came', async () => {
  const over = await pushed(harness.ledger)
  await harness.ledger.cancel(over.id, NOW)
  const right = await pushed(harness.ledger, { queue: 'right' })
  const left = await pushed(harness.ledger)
  arriving(over.id)
  buffered.push(toldArrival(told, { id: right.id, queue: 'right' }))
  arriving(left.id)
  atATime = 2
  const jobs = await fetchNow({ count: 2, queues: ['default', 'right'] })
  expect(jobs.map(({ id }) => id)).toEqual([left.id, right.id])
})

it('puts back what there is no memory for, and answers that', async () => {
  const { id } = await pushed(harness.ledger)
  const content = Buffer.alloc(2 * UNCOUNTED_BYTES, 'x')
  Object.assign(arriving(id), { size: content.length, message: { headers: {}, content } })
  const all = new WorkMemory(1_000_000)
  new MemoryShare(all).take(499_999)
  await expect(fetchNow({ memory: new MemoryShare(all) })).rejects.toMatchObject({ status: 503 })
  expect(told).toEqual(['put back 1'])
})

describe('where there is memory for one of two', () => {
  const content = Buffer.alloc(2 * UNCOUNTED_BYTES, 'x')
  const large = (id: string) =>
    Object.assign(arriving(id), { size: content.length, message: { headers: {}, content } })
  const forOne = () => {
    const all = new WorkMemory(2 * heapOfText(content) + 100)
    new MemoryShare(all).take(1)
    return new MemoryShare(all)
  }

  it('a FETCH is content with the first, which is a job', async () => {
    const { id } = await pushed(harness.ledger)
    large(id)
    large((await pushed(harness.ledger)).id)
    expect(await fetchNow({ memory: forOne() })).toMatchObject([{ id }])
    expect(told).toEqual(['put back 1'])
    expect(asked).toHaveLength(1)
  })

  it('and goes on to the second, where the first is none', async () => {
    const over = await pushed(harness.ledger)
    await harness.ledger.cancel(over.id, NOW)
    const { id } = await pushed(harness.ledger)
    large(over.id)
    large(id)
    between = () => large(id)
    expect(await fetchNow({ memory: forOne() })).toMatchObject([{ id }])
    expect(told).toEqual(['put back 1', 'ack'])
  })
})

it('takes back the start of a job with a rate limit where the ledger cannot be written', async () => {
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

it('puts back what it has taken where the ledger cannot be written', async () => {
  const { id } = await pushed(harness.ledger)
  arriving(id)
  arriving(id)
  await harness.ledger.close()
  await expect(fetchNow()).rejects.toMatchObject({ status: 503 })
  expect(told).toEqual(['put back 2'])
  await harness.reopen()
})

it('keeps no memory of what it has dropped', async () => {
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
