import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { historyLine, PRIORITY_CHANGED } from '../../../src/job/history/changes.ts'
import { isTerminal, JOB_STATES, type JobRow } from '../../../src/job/job.ts'
import { isHeld } from '../../../src/job/lease-fence.ts'
import { priorityRefusal } from '../../../src/job/priority.ts'
import { canBecome } from '../../../src/job/states.ts'
import * as due from '../../../src/job/transitions/due.ts'
import * as end from '../../../src/job/transitions/end.ts'
import * as lease from '../../../src/job/transitions/lease.ts'
import * as native from '../../../src/job/transitions/native.ts'
import * as priority from '../../../src/job/transitions/priority.ts'
import { type Change, type KeptRow, recorded } from '../../../src/job/transitions/row.ts'
import type { FailureChange } from '../../../src/ledger/leases.ts'
import type { SqliteLedger } from '../../../src/ledger/sqlite/ledger.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { NOW, type Planted, settleLazily } from '../harness.ts'
import { ledgerOfTest } from './harness.ts'

/** A row of SQLite's with what the transitions see of it, and its texts. */
type Row = KeptRow & Pick<JobRow, 'error' | 'errors' | 'result'>

/** Most transitions are of active rows with the attempt and generation that a fence names. */
const ACTIVE = ['active', 'active', 'active'] as const
const near = fc.constantFrom(null, NOW - 1_000, NOW, NOW + 1_000)
const rows = fc.array(
  fc.record({
    state: fc.constantFrom(...ACTIVE, ...ACTIVE, ...JOB_STATES, 'withdrawn' as const),
    generation: fc.constantFrom(0, 0, 0, 1),
    attempt: fc.constantFrom(0, 1, 1, 1, 2),
    holder: fc.constantFrom(null, 'gateway', 'ledger', 'native'),
    workerId: fc.constantFrom(null, 'w', 'x'),
    messageOut: fc.boolean(),
    owes: fc.boolean(),
    leaseMs: fc.constant(30_000),
    leaseExpiresAt: near,
    timeoutAt: near,
    dueAt: near,
    retryQueueMs: fc.constantFrom(null, 0, 500),
    retryDelayMs: fc.constantFrom(null, 700, 90_000),
    startedAt: near,
    enqueuedAt: fc.constantFrom(NOW - 500, NOW + 500),
    isDeadLetter: fc.boolean(),
    deadLetterCopied: fc.boolean(),
    error: fc.constantFrom(null, '{"code":"e"}'),
  }),
  { minLength: 40, maxLength: 40 },
)

const ERRORS = { now: NOW, error: '{"code":"x"}', errors: '[{}]' } as const
const FENCE = { generation: 0, attempt: 1 } as const
const VIA = { dueAt: NOW + 9, delayMs: 9 } as const
const FAILURES: FailureChange[] = [
  { ...ERRORS, ...VIA, to: 'retryable', retryQueueMs: 7, isMessageBack: false },
  { ...ERRORS, ...VIA, to: 'retryable', retryQueueMs: null, isMessageBack: false },
  { ...ERRORS, ...VIA, to: 'retryable', retryQueueMs: null, isMessageBack: true },
  { ...ERRORS, to: 'available' },
  { ...ERRORS, to: 'discarded', isDeadLetter: true, copy: 'nack' },
  { ...ERRORS, to: 'discarded', isDeadLetter: false, copy: 'publish' },
]

/** A write of SQLite's, and the transition that must say the same. `nonce`: the one that the row got. */
interface Pair {
  name: string
  write(ledger: SqliteLedger, id: string): unknown
  change(row: Row, nonce: number): Change | null
}

const line = (state: JobRow['state'], attempt: number | null, reason?: string) =>
  historyLine(NOW, state, attempt, null, { reason })

const PAIRS: readonly Pair[] = [
  ...FAILURES.flatMap((failure, i) =>
    [{}, FENCE, { workerId: 'w' }].map((fence) => ({
      name: `fail ${i}`,
      write: (ledger: SqliteLedger, id: string) => ledger.fail(id, fence, () => failure),
      change: (row: Row, nonce: number) =>
        isHeld(row, fence)
          ? lease.failed(row, failure, nonce, line(failure.to, row.attempt))
          : null,
    })),
  ),
  ...[1, 2, null].map((messageAttempt) => ({
    name: 'release',
    write: (ledger: SqliteLedger, id: string) =>
      ledger.release(id, { ...FENCE, messageAttempt, now: NOW }),
    change: (row: Row, nonce: number) =>
      isHeld(row, FENCE)
        ? lease.released(row, messageAttempt, nonce, line('available', 1, 'released'))
        : null,
  })),
  ...[{}, { attempt: 1 }, { workerId: 'w' }, { generation: 1 }].map((fence) => ({
    name: 'complete',
    write: (ledger: SqliteLedger, id: string) =>
      ledger.complete(id, fence, { now: NOW, result: '1' }),
    change: (row: Row) => {
      const attempt = 'attempt' in fence ? 1 : null
      return lease.completed(row, fence, { now: NOW, result: '1' }, line('completed', attempt))
    },
  })),
  ...[null, 5].map((leaseMs) => ({
    name: 'extend',
    write: (ledger: SqliteLedger, id: string) =>
      ledger.extend([id], { now: NOW, workerId: 'w', leaseMs }),
    change: (row: Row) => lease.extended(row, { now: NOW, workerId: 'w', leaseMs }),
  })),
  {
    name: 'handOver',
    write: (ledger, id) => ledger.handOver([{ id, ...FENCE }]),
    change: (row) => lease.handedOver(row, FENCE),
  },
  {
    name: 'handBack',
    write: (ledger, id) => ledger.handBack([{ id, ...FENCE }]),
    change: (row) => lease.handedBack(row, FENCE),
  },
  {
    name: 'cancel',
    write: (ledger, id) => ledger.cancel(id, NOW),
    change: (row, nonce) =>
      row.state !== 'withdrawn' && canBecome(row.state, 'cancelled')
        ? end.cancelled(row, NOW, nonce, line('cancelled', row.attempt))
        : null,
  },
  ...[null, 1, 2].map((attempt) => ({
    name: 'messageReturned',
    write: (ledger: SqliteLedger, id: string) => {
      if (attempt === null) ledger.messageReturned(id, 0)
      else ledger.messageReturned(id, 0, attempt)
      return settleLazily(ledger)
    },
    change: (row: Row) => end.returned(row, 0, attempt),
  })),
  {
    name: 'activate',
    write: (ledger, id) => ledger.activate(id, NOW, NOW),
    change: (row, nonce) => {
      const lines = { available: line('available', 0), scheduled: line('scheduled', 0) }
      return due.activated(row, { now: NOW, wall: NOW, nonce }, lines)
    },
  },
  {
    name: 'prioritize',
    write: (ledger, id) => ledger.prioritize(id, 7, { now: NOW, cause: {}, mayReplace: true }),
    change: (row, nonce) => {
      if (row.state === 'withdrawn' || priorityRefusal(row) !== null) return null
      const why = line(row.state, row.attempt, PRIORITY_CHANGED)
      // What becomes of the envelope is the same function in both.
      const { envelope: _, ...change } = priority.prioritized(
        row,
        { priority: 7, envelope: '' },
        nonce,
        why,
      )
      return change
    },
  },
  ...[null, 5].map((leaseMs) => ({
    name: 'a native heartbeat',
    write: (ledger: SqliteLedger, id: string) => extendNatively(ledger, id, leaseMs),
    change: (row: Row) => native.nativeExtended(row, { now: NOW, workerId: 'w', leaseMs }),
  })),
]

/** Only of active jobs: what a heartbeat starts is decided elsewhere. */
async function extendNatively(ledger: SqliteLedger, id: string, leaseMs: number | null) {
  if ((await ledger.read.find(id))?.state !== 'active') return
  const times = { now: NOW, wall: NOW, workerId: 'w', leaseMs, defaultLeaseMs: 1 }
  await ledger.beatNative([id], times)
}

describe('the transitions of job/ and the SQL of SQLite', () => {
  const harness = ledgerOfTest()

  let lastNonce = 0

  async function planted(given: readonly (Omit<Planted, 'id'> & { owes?: boolean })[]) {
    const jobs = given.map(() => newJob({ queue: newJob().id }))
    await harness.ledger.insertAll(jobs, NOW)
    await harness.plant(
      given.map(({ owes, ...row }, i) => {
        const isActive = row.state === 'active'
        return {
          id: jobs[i]?.id ?? '',
          ...row,
          outbox: owes ? --lastNonce : null,
          ...(!isActive && { leaseMs: null, leaseExpiresAt: null, timeoutAt: null }),
          ...(isActive && row.leaseExpiresAt === null && { leaseExpiresAt: NOW + 5 }),
          isDeadLetter: row.isDeadLetter === true && row.state === 'discarded',
        }
      }),
    )
    return jobs.map(({ id }) => id)
  }

  async function rowOf(id: string): Promise<Row> {
    const found = await harness.ledger.read.find(id)
    if (found === null) throw new Error(`no row ${id}`)
    const { carry: _, envelope: __, ...row } = found
    const kept = harness.db
      .prepare<
        [string],
        Pick<
          KeptRow,
          | 'endedAt'
          | 'extendedMs'
          | 'history'
          | 'uniqueKey'
          | 'cronEntry'
          | 'concurrencyKey'
          | 'seq'
        >
      >(
        `SELECT ended_at AS endedAt, extended_ms AS extendedMs, history, unique_key AS uniqueKey,
           cron_entry AS cronEntry, concurrency_key AS concurrencyKey, seq
         FROM jobs WHERE id = ?`,
      )
      .get(id)
    if (kept === undefined) throw new Error(`no row ${id}`)
    return { ...row, ...kept, step: null }
  }

  it('change the same columns of the same rows', async () => {
    const changed = new Set<string>()
    const unchanged = new Set<string>()
    await fc.assert(
      fc.asyncProperty(rows, fc.nat(PAIRS.length), async (given, offset) => {
        const ids = await planted(given)
        for (const [i, id] of ids.entries()) {
          const pair = PAIRS[(i + offset) % PAIRS.length]
          if (!pair) throw new Error('no pair')
          const before = await rowOf(id)
          await pair.write(harness.ledger, id)
          const after = await rowOf(id)
          const change = pair.change(before, after.outbox ?? 0)
          expect(after, pair.name).toEqual({ ...before, ...change })
          ;(change === null ? unchanged : changed).add(pair.name)
        }
      }),
      { numRuns: 40, endOnFailure: true, seed: 7 },
    )
    // Each was tried on rows that it changes, and on rows that it leaves alone: by the seed, which makes that sure.
    const names = new Set(PAIRS.map(({ name }) => name))
    expect(changed).toEqual(names)
    expect(unchanged).toEqual(names)
  })

  it('promote and rearm the same rows', async () => {
    await fc.assert(
      fc.asyncProperty(rows, fc.boolean(), async (given, isRearm) => {
        const ids = await planted(given)
        const before = await Promise.all(ids.map(rowOf))
        if (isRearm) for (const { queue } of before) await harness.ledger.rearm(queue, NOW)
        else await harness.ledger.promote(NOW, NOW, 10_000)
        for (const row of before) {
          const after = await rowOf(row.id)
          const change = isRearm ? lostOf(row, after.outbox) : promotedOf(row, after.outbox)
          expect(after, row.state).toEqual({ ...row, ...change })
        }
      }),
      { numRuns: 10, endOnFailure: true },
    )
  })
})

function promotedOf(row: Row, nonce: number | null): Change | null {
  const isDue = row.state === 'retryable' || row.state === 'scheduled'
  if (!isDue || row.dueAt === null || row.dueAt > NOW) return null
  return due.promoted(row, NOW, nonce, line('available', null, 'due'))
}

function lostOf(row: Row, nonce: number | null): Change | null {
  if (isTerminal(row.state)) {
    const isInQueue = row.dueAt === null || row.dueAt <= NOW
    return row.messageOut && isInQueue ? { messageOut: false } : null
  }
  const how = due.lostWith(row, NOW)
  if (how === 'handed over') return { holder: 'ledger' }
  return how && due.rearmed(row, how === 'owed' ? nonce : null, true)
}

describe('the history', () => {
  it('is cut as in SQL', () => {
    const long = '\n1,"av",0'.repeat(1_000)
    const after = recorded({ history: long }, '\n2,"ac",1')
    expect(after.length).toBeLessThan(5_000)
    expect(after.startsWith('~\n1')).toBe(true)
    expect(after.endsWith('\n2,"ac",1')).toBe(true)
  })
})
