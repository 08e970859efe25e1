import { setImmediate as settled } from 'node:timers/promises'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { PublishOutcome } from '../../../src/broker/broker.ts'
import type { JobRow } from '../../../src/job/job.ts'
import type { Failure } from '../../../src/job/retry/error-history.ts'
import { failLease } from '../../../src/operations/lease/fail-lease.ts'
import { eventOf, REPORT } from '../../ledger/contract/reports.ts'
import {
  copyCame,
  fenceOf,
  fetched,
  giveBack,
  jobMessage,
  NOW,
  pushed,
  rowOf,
  settleLazily,
  TERMS,
} from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { deferred } from '../../support/time/deferred.ts'
import { onToldBroker, type ToldStage, toldDelivery } from '../job-messages/told-broker.ts'

const FAILURE: Failure = { code: 'e', type: 'e', message: 'it broke', retryable: true }

const harness = ledgerOfTest()
let stage: ToldStage
/** What RabbitMQ was told, in order. */
let told: string[]
let outcome: Promise<PublishOutcome>
let hasRetryQueues: boolean

beforeEach(() => {
  told = []
  outcome = Promise.resolve('confirmed')
  hasRetryQueues = true
  stage = onToldBroker(harness, {
    isRetryQueueReady: () => hasRetryQueues,
    ensureRetryQueue: async () => 'unusable',
    publish: ({ state }) => {
      told.push(`publish ${state}`)
      return outcome
    },
    unpark: () => told.push('unpark') > 0,
  })
})

/** A job that an HTTP worker runs, with the delivery that is held for it. */
async function leased(
  given: Parameters<typeof toldDelivery>[1] = {},
  job: Parameters<typeof fetched>[1] = {},
): Promise<JobRow> {
  const row = await fetched(harness.ledger, job)
  stage.deps.jobMessages.held.set(row.id, toldDelivery(told, given))
  return row
}
const fail = (row: JobRow) =>
  failLease(stage.deps, { id: row.id, fence: row, find: () => ({ failure: FAILURE }) })
const now = async (row: JobRow): Promise<JobRow> => {
  await settleLazily(harness.ledger)
  return await rowOf(harness.ledger, row.id)
}

describe('failLease, with an attempt left', () => {
  it('acknowledges the delivery only after RabbitMQ confirmed the job message of the next attempt', async () => {
    const confirm = deferred<PublishOutcome>()
    outcome = confirm.promise
    const row = await leased()
    expect(await fail(row)).toMatchObject({ state: 'retryable', messageOut: true })
    expect(stage.deps.jobMessages.held.has(row.id)).toBe(false)
    await settled()
    expect(told).toEqual(['unpark', 'publish retryable'])
    confirm.resolve('confirmed')
    await settled()
    expect(told).toEqual(['unpark', 'publish retryable', 'ack'])
  })

  it('acknowledges the delivery without a confirm too: the relay publishes the job message again', async () => {
    outcome = Promise.resolve('unknown')
    const row = await leased()
    await fail(row)
    await settled()
    expect(told).toEqual(['unpark', 'publish retryable', 'ack'])
    expect((await now(row)).outbox).not.toBeNull()
    expect(stage.woken).toBe(1)
  })

  it('declares no retry queue while RabbitMQ is down', async () => {
    hasRetryQueues = false
    const ensureRetryQueue = vi.fn(async () => 'unusable' as const)
    Object.assign(stage.deps.broker, { status: () => ({ state: 'down' }), ensureRetryQueue })
    expect(await fail(await leased())).toMatchObject({ state: 'retryable', retryQueueMs: null })
    expect(ensureRetryQueue).not.toHaveBeenCalled()
  })

  it('waits for a retry queue that is yet to be declared, and decides the same', async () => {
    hasRetryQueues = false
    const declared: number[] = []
    const ensureRetryQueue = async (_: string, delayMs: number) => {
      declared.push(delayMs)
      hasRetryQueues = true
      return 'ready'
    }
    let drawn = 0
    Object.assign(stage.deps, { random: () => (drawn++ % 4) / 4 })
    Object.assign(stage.deps.broker, { status: () => ({ state: 'up' }), ensureRetryQueue })
    const row = await leased()
    const failed = await fail(row)
    expect(failed).toMatchObject({ state: 'retryable', retryQueueMs: declared[0] })
    expect(declared).toHaveLength(1)
    await settled()
    expect(told).toEqual(['unpark', 'publish retryable', 'ack'])
  })

  it('answers stale when the job was leased anew while the retry queue was declared', async () => {
    hasRetryQueues = false
    const row = await leased()
    const ensureRetryQueue = async () => {
      await harness.ledger.release(row.id, fenceOf(row))
      await harness.ledger.claim([jobMessage(row.id)], { ...TERMS, now: NOW + 1 })
      return 'unusable'
    }
    Object.assign(stage.deps.broker, { status: () => ({ state: 'up' }), ensureRetryQueue })
    expect(await fail(row)).toMatchObject({ outcome: 'stale', row: { startedAt: NOW + 1 } })
    expect(told).toEqual([])
    expect(await now(row)).toMatchObject({ state: 'active', attempt: 1, startedAt: NOW + 1 })
  })

  it('waits for no retry queue where it may not, but begins to declare it', async () => {
    hasRetryQueues = false
    const ensureRetryQueue = vi.fn(() => new Promise<never>(() => {}))
    Object.assign(stage.deps.broker, { status: () => ({ state: 'up' }), ensureRetryQueue })
    const { id, ...fence } = await leased()
    const find = () => ({ failure: FAILURE })
    const failed = await failLease(stage.deps, { id, fence, find, mayWait: false })
    expect(failed).toMatchObject({ state: 'retryable', retryQueueMs: null })
    expect(ensureRetryQueue).toHaveBeenCalledOnce()
  })

  it.each([
    [true, false],
    [false, true],
  ])(
    'keeps the retry in the ledger without a retry queue: delivery live %s, job message still out %s',
    async (isLive, messageOut) => {
      hasRetryQueues = false
      const row = await leased({ isLive })
      expect(await fail(row)).toMatchObject({
        state: 'retryable',
        retryQueueMs: null,
        outbox: null,
      })
      expect(told).toEqual(['unpark', 'ack'])
      expect(await now(row)).toMatchObject({ messageOut })
    },
  )

  it('answers stale when another worker has taken the lease', async () => {
    const row = await leased()
    await giveBack(harness.ledger, row.id, fenceOf(row))
    await harness.ledger.claim([jobMessage(row.id)], { ...TERMS, workerId: 'worker-2' })
    const attempt = { id: row.id, fence: row, find: () => ({ failure: FAILURE }) }
    expect(await failLease(stage.deps, attempt)).toMatchObject({
      outcome: 'stale',
      row: { id: row.id },
    })
    expect(told).toEqual([])
    expect(await now(row)).toMatchObject({ state: 'active', workerId: 'worker-2' })
  })
})

describe('failLease, of the last attempt', () => {
  it('rejects the delivery; the dead letter counts as copied once its copy has come', async () => {
    const row = await leased({}, { maxAttempts: 1 })
    expect(await fail(row)).toMatchObject({ state: 'discarded' })
    expect(told).toEqual(['unpark', 'dead letter'])
    expect(await now(row)).toMatchObject({ deadLetterCopied: false, messageOut: false })
    await copyCame(harness.ledger, row.id, 0)
    expect(await now(row)).toMatchObject({ deadLetterCopied: true })
  })

  it.each([
    ['the rejection is lost', true],
    ['no delivery is held', false],
  ])('leaves the dead letter uncopied when %s', async (_, isHeld) => {
    const row = await leased({ settles: 'lost' }, { maxAttempts: 1 })
    if (!isHeld) stage.deps.jobMessages.held.delete(row.id)
    await fail(row)
    await settled()
    expect(told).toEqual(isHeld ? ['unpark', 'dead letter'] : ['unpark'])
    expect(await now(row)).toMatchObject({
      deadLetterCopied: false,
      messageOut: true,
      outbox: null,
    })
  })

  it('publishes the dead letter when the ledger alone held the lease', async () => {
    const row = await leased({}, { maxAttempts: 1 })
    stage.deps.jobMessages.held.delete(row.id)
    await harness.ledger.handOver([row])
    await fail(await rowOf(harness.ledger, row.id))
    await settled()
    expect(told).toEqual(['unpark', 'publish discarded'])
    expect(await now(row)).toMatchObject({ deadLetterCopied: true, outbox: null })
  })

  it('publishes one dead letter when the lease was handed to the ledger in the same turn', async () => {
    const row = await leased({}, { maxAttempts: 1 })
    await Promise.all([harness.ledger.handOver([row]), fail(row)])
    await settled()
    expect(told).toEqual(['unpark', 'publish discarded', 'ack'])
    expect(await now(row)).toMatchObject({ deadLetterCopied: true, outbox: null })
  })
})

describe('failLease, of a lost lease', () => {
  const ended = (row: JobRow, overdueAt = NOW + 30_000) =>
    failLease(stage.deps, {
      id: row.id,
      fence: row,
      find: (now) =>
        (now.leaseExpiresAt ?? 0) > overdueAt ? null : { failure: FAILURE, isLost: true },
    })

  it('acknowledges the delivery after publishing the job message of the next attempt', async () => {
    const row = await leased()
    expect(await ended(row)).toMatchObject({ state: 'available', holder: null })
    await settled()
    expect(told).toEqual(['unpark', 'publish available', 'ack'])
  })

  it('removes the job from the active jobs of its worker', async () => {
    const row = await leased()
    const { workers } = stage.deps
    workers.beaten({ workerId: 'worker-1', activeJobs: 1, activeJobIds: [row.id] })
    await ended(row)
    const [worker] = workers.list({ limit: 1, offset: 0 }).workers
    expect(worker).toMatchObject({ id: 'worker-1', activeJobs: 0, activeJobIds: [] })
  })

  it('answers stale when a heartbeat has extended the lease since', async () => {
    const row = await leased({}, { timeoutMs: 0 })
    const beat = { now: NOW + 1, leaseMs: 60_000, workerId: 'worker-1' }
    await harness.ledger.extend([row.id], beat)
    expect(await ended(row)).toMatchObject({ outcome: 'stale', row: { id: row.id } })
    expect(told).toEqual([])
    expect(await now(row)).toMatchObject({ state: 'active', leaseExpiresAt: NOW + 60_001 })
  })

  it('publishes no job message when a native worker holds the delivery', async () => {
    const { id } = await pushed(harness.ledger)
    await harness.ledger.applyReports([eventOf(id, { event: 'started' })], REPORT)
    const job = await ended(await rowOf(harness.ledger, id), NOW + 30_050)
    expect(job).toMatchObject({ state: 'available', holder: 'native', outbox: null })
    await settled()
    expect(told).toEqual([])
  })

  it('publishes a new job message when the one of a native worker was claimed in the same turn', async () => {
    const { id } = await pushed(harness.ledger)
    await harness.ledger.applyReports([eventOf(id, { event: 'started' })], REPORT)
    const row = await rowOf(harness.ledger, id)
    const claim = harness.ledger.claim([jobMessage(id)], TERMS)
    await Promise.all([claim, ended(row, NOW + 30_050)])
    await settled()
    expect(told).toEqual(['unpark', 'publish available'])
    expect(await now(row)).toMatchObject({ state: 'available', holder: null, outbox: null })
  })
})
