import { setImmediate as settled } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { PublishOutcome } from '../../../src/broker/broker.ts'
import type { Failure } from '../../../src/job/error-history.ts'
import type { JobRow } from '../../../src/job/job.ts'
import { failLease, returnLease } from '../../../src/operations/lease/fail-lease.ts'
import { eventOf, REPORT } from '../../ledger/contract-reports.ts'
import {
  copyCame,
  fenceOf,
  fetched,
  NOW,
  pushed,
  rowOf,
  settleLazily,
  TERMS,
  token,
} from '../../ledger/harness.ts'
import { openSqliteHarness, type SqliteHarness } from '../../ledger/sqlite-harness.ts'
import { deferred } from '../../support/deferred.ts'
import { onToldBroker, type ToldStage, toldDelivery } from '../told-broker.ts'

const FAILURE: Failure = { code: 'e', type: 'e', message: 'it broke', retryable: true }

let harness: SqliteHarness
let stage: ToldStage
/** What RabbitMQ was told, in its order. */
let told: string[]
let outcome: Promise<PublishOutcome>
let hasRungs: boolean

beforeEach(async () => {
  harness = await openSqliteHarness()
  told = []
  outcome = Promise.resolve('confirmed')
  hasRungs = true
  stage = onToldBroker(harness, {
    isRungReady: () => hasRungs,
    ensureRung: async () => 'unusable',
    publish: ({ state }) => {
      told.push(`publish ${state}`)
      return outcome
    },
    unpark: () => told.push('unpark') > 0,
  })
})
afterEach(() => harness.destroy())

/** A job that an HTTP worker has, with the delivery that is held for it. */
async function leased(
  given: Parameters<typeof toldDelivery>[1] = {},
  job: Parameters<typeof fetched>[1] = {},
): Promise<JobRow> {
  const row = await fetched(harness.ledger, job)
  stage.deps.tokens.held.set(row.id, toldDelivery(told, given))
  return row
}
const fail = (row: JobRow) => failLease(stage.deps, { row, failure: FAILURE })
const now = async (row: JobRow): Promise<JobRow> => {
  await settleLazily(harness.ledger)
  return rowOf(harness.ledger, row.id)
}

describe('an attempt that failed', () => {
  it('keeps its delivery until RabbitMQ has the token of the next one', async () => {
    const confirm = deferred<PublishOutcome>()
    outcome = confirm.promise
    const row = await leased()
    expect(await fail(row)).toMatchObject({ state: 'retryable', tokenOut: true })
    expect(stage.deps.tokens.held.has(row.id)).toBe(false)
    await settled()
    expect(told).toEqual(['unpark', 'publish retryable'])
    confirm.resolve('confirmed')
    await settled()
    expect(told).toEqual(['unpark', 'publish retryable', 'ack'])
  })

  it('gives it back without that too: the outbox owes the token, and the relay is told', async () => {
    outcome = Promise.resolve('unknown')
    const row = await leased()
    await fail(row)
    await settled()
    expect(told).toEqual(['unpark', 'publish retryable', 'ack'])
    expect((await now(row)).outbox).not.toBeNull()
    expect(stage.woken).toBe(1)
  })

  it('asks for no retry queue while RabbitMQ is away', async () => {
    hasRungs = false
    const ensureRung = vi.fn(async () => 'unusable' as const)
    Object.assign(stage.deps.broker, { status: () => ({ state: 'down' }), ensureRung })
    expect(await fail(await leased())).toMatchObject({ state: 'retryable', rungMs: null })
    expect(ensureRung).not.toHaveBeenCalled()
  })

  it.each([
    [true, false],
    [false, true],
  ])(
    'is held by the ledger: with a delivery that is live (%s), a token may still come: %s',
    async (isLive, tokenOut) => {
      hasRungs = false
      const row = await leased({ isLive })
      expect(await fail(row)).toMatchObject({ state: 'retryable', rungMs: null, outbox: null })
      expect(told).toEqual(['unpark', 'ack'])
      expect(await now(row)).toMatchObject({ tokenOut })
    },
  )

  it('is stale where the lease has become that of another worker', async () => {
    const row = await leased()
    await harness.ledger.release(row.id, fenceOf(row))
    await harness.ledger.claim([token(row.id)], { ...TERMS, workerId: 'worker-2' })
    const attempt = { row, failure: FAILURE, workerId: 'worker-1' }
    expect(await failLease(stage.deps, attempt)).toBe('stale')
    expect(told).toEqual([])
    expect(await now(row)).toMatchObject({ state: 'active', workerId: 'worker-2' })
  })
})

describe('the last attempt', () => {
  it('has its delivery rejected; the copy is owed until it has come', async () => {
    const row = await leased({}, { maxAttempts: 1 })
    expect(await fail(row)).toMatchObject({ state: 'discarded' })
    expect(told).toEqual(['unpark', 'dead letter'])
    expect(await now(row)).toMatchObject({ deadLetterCopied: false, tokenOut: false })
    await copyCame(harness.ledger, row.id, 0)
    expect(await now(row)).toMatchObject({ deadLetterCopied: true })
  })

  it.each([
    ['that is lost', true],
    ['that came over a channel which is gone', false],
  ])('still owes the copy with a rejection %s', async (_, isHeld) => {
    const row = await leased({ settles: 'lost' }, { maxAttempts: 1 })
    if (!isHeld) stage.deps.tokens.held.delete(row.id)
    await fail(row)
    await settled()
    expect(told).toEqual(isHeld ? ['unpark', 'dead letter'] : ['unpark'])
    expect(await now(row)).toMatchObject({ deadLetterCopied: false, tokenOut: true, outbox: null })
  })

  it('has its copy published where the ledger alone held the lease', async () => {
    const row = await leased({}, { maxAttempts: 1 })
    stage.deps.tokens.held.delete(row.id)
    await harness.ledger.handOver([row])
    await fail(rowOf(harness.ledger, row.id))
    await settled()
    expect(told).toEqual(['unpark', 'publish discarded'])
    expect(await now(row)).toMatchObject({ deadLetterCopied: true, outbox: null })
  })

  it('has it published where the lease became the ledger’s in the same turn; no second copy', async () => {
    const row = await leased({}, { maxAttempts: 1 })
    await Promise.all([harness.ledger.handOver([row]), fail(row)])
    await settled()
    expect(told).toEqual(['unpark', 'publish discarded', 'ack'])
    expect(await now(row)).toMatchObject({ deadLetterCopied: true, outbox: null })
  })
})

describe('a lease that ran out', () => {
  const ended = (row: JobRow, overdueAt = NOW + 30_000) =>
    returnLease(stage.deps, { row, failure: FAILURE, overdueAt })

  it('gives its delivery back behind the token of the next attempt', async () => {
    const row = await leased()
    expect(await ended(row)).toMatchObject({ state: 'available', holder: null })
    await settled()
    expect(told).toEqual(['unpark', 'publish available', 'ack'])
  })

  it('is taken from what its worker has named', async () => {
    const row = await leased()
    const { workers } = stage.deps
    workers.beaten({ workerId: 'worker-1', activeJobs: 1, activeJobIds: [row.id] })
    await ended(row)
    const [worker] = workers.list({ limit: 1, offset: 0 }).workers
    expect(worker).toMatchObject({ id: 'worker-1', activeJobs: 0, activeJobIds: [] })
  })

  it('goes on where a heartbeat came since it was looked at', async () => {
    const row = await leased({}, { timeoutMs: 0 })
    const beat = { now: NOW + 1, leaseMs: 60_000, workerId: 'worker-1' }
    await harness.ledger.extend([row.id], beat)
    expect(await ended(row)).toBe('stale')
    expect(told).toEqual([])
    expect(await now(row)).toMatchObject({ state: 'active', leaseExpiresAt: NOW + 60_001 })
  })

  it('of a native worker leaves the token with him', async () => {
    const { id } = await pushed(harness.ledger)
    await harness.ledger.applyReports([eventOf(id, { event: 'started' })], REPORT)
    const job = await ended(rowOf(harness.ledger, id), NOW + 30_050)
    expect(job).toMatchObject({ state: 'available', holder: 'native', outbox: null })
    await settled()
    expect(told).toEqual([])
  })

  it('of a native worker whose token has come to us in the same turn has another one', async () => {
    const { id } = await pushed(harness.ledger)
    await harness.ledger.applyReports([eventOf(id, { event: 'started' })], REPORT)
    const row = rowOf(harness.ledger, id)
    const claim = harness.ledger.claim([token(id)], TERMS)
    await Promise.all([claim, ended(row, NOW + 30_050)])
    await settled()
    expect(told).toEqual(['unpark', 'publish available'])
    expect(await now(row)).toMatchObject({ state: 'available', holder: null, outbox: null })
  })
})
