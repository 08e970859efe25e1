import { expect } from 'vitest'

import { OjsError } from '../../src/errors.ts'
import type { JobRow, NewJob, OwedMessage } from '../../src/job/job.ts'
import type { Inserted } from '../../src/ledger/enqueued.ts'
import type {
  ClaimTerms,
  ClaimToken,
  FailFence,
  FailureRecord,
  ReleaseFence,
} from '../../src/ledger/leases.ts'
import type { Ledger, StateCounts } from '../../src/ledger/ledger.ts'
import { newJob } from '../support/jobs.ts'
import { inOrder } from '../support/order.ts'

/** One ledger under test, on storage of its own. Each implementation brings one. */
export interface LedgerHarness {
  /** Another object after `reopen` and `plant`. */
  readonly ledger: Ledger
  /** As a restart of the gateway would do it. */
  reopen(): Promise<void>
  /**
   * Writes columns of existing rows behind the ledger's back and reopens it: the way into states
   * that no operation leads to yet, and into rows as a fault could leave them.
   */
  plant(rows: readonly Planted[]): Promise<void>
  /** Every row counted, by queue. Queues without rows may be missing. */
  recount(): {
    states: Map<string, StateCounts>
    deadLetters: Map<string, number>
    claimable: Map<string, number>
  }
  /** What the implementation finds wrong in its own storage; empty when all is well. */
  inspect(): string[]
  destroy(): Promise<void>
}

/** What each part of the contract works with: in every test that test's own, also after `reopen`. */
export interface UnderTest {
  readonly harness: LedgerHarness
  readonly ledger: Ledger
  /** The row of an id that there is. */
  row(id: string): JobRow
  /** `plant` of the harness. */
  plant(...rows: Planted[]): Promise<void>
}

export type Planted = { id: string } & Partial<Omit<JobRow, 'id' | 'carry'>>

export const NOW = 1_700_000_000_000

export const TERMS: ClaimTerms = {
  now: NOW,
  wall: NOW,
  workerId: 'worker-1',
  leaseMs: null,
  defaultLeaseMs: 30_000,
}

/** A token of a job that the ledger knows. */
export function token(id: string, given: Partial<ClaimToken> = {}): ClaimToken {
  return {
    id,
    generation: 0,
    attempt: 1,
    isHeldDelivery: false,
    adopt: () => {
      throw new Error(`the ledger knows ${id}`)
    },
    ...given,
  }
}

/** A new job, stored: its id and its outbox nonce (0: none). */
export async function pushed(
  ledger: Ledger,
  given: Parameters<typeof newJob>[0] = {},
): Promise<{ id: string; outbox: number }> {
  const job = newJob(given)
  const { outbox } = insertedOf(await ledger.insert(job, NOW))
  return { id: job.id, outbox: outbox ?? 0 }
}

/** A job that `worker-1` has fetched. */
export async function fetched(
  ledger: Ledger,
  given: Parameters<typeof newJob>[0] = {},
): Promise<JobRow> {
  const { id } = await pushed(ledger, given)
  const [result] = await ledger.claim([token(id)], TERMS)
  if (result?.verdict !== 'claimed') throw new Error(`not claimed: ${result?.verdict}`)
  return result.job
}

export function insertedOf(inserted: Inserted): Inserted & { outcome: 'inserted' } {
  if (inserted.outcome !== 'inserted') throw new Error('the id was taken')
  return inserted
}

/** Waits for the lazy writes so far: they ride on this one. */
export async function settleLazily(ledger: Ledger): Promise<void> {
  await ledger.handOver([])
}

/** How many rows go when all may that wait for no token. */
export async function prunedRows({ ledger }: Pick<LedgerHarness, 'ledger'>): Promise<number> {
  await settleLazily(ledger)
  const at = NOW + 1e12
  const ends = { completed: at, cancelled: at, discarded: at, deadLetters: at, withdrawn: at }
  return await ledger.prune(ends, at, 100)
}

export function rowOf(ledger: Ledger, id: string): JobRow {
  const row = ledger.find(id)
  if (!row) throw new Error(`no row ${id}`)
  return row
}

/** Queues with copies that nobody needs, by name. */
export function staleQueues(ledger: Ledger): string[] {
  return inOrder(ledger.staleCopies().keys())
}

/** A sweep of this queue, of which `during` happens while it looks. */
export async function sweep(
  ledger: Ledger,
  queue: string,
  during: () => Promise<unknown> = async () => {},
): Promise<void> {
  const mark = ledger.staleCopies().get(queue)
  if (mark === undefined) throw new Error(`${queue} is not stale`)
  await during()
  await ledger.swept(queue, mark)
}

/** What of a new job its row repeats. */
export function asked({ start: _, unique: __, ...job }: NewJob): Omit<NewJob, 'start' | 'unique'> {
  return job
}

/** What the outbox says of a row that owes a message. */
export function owedBy({ id, queue, state, outbox, envelope }: JobRow): OwedMessage {
  if (outbox === null) throw new Error(`${id} owes nothing`)
  return { id, queue, state, outbox, bytes: Buffer.byteLength(envelope) }
}

/** The fence of a row as it is. */
/** Of a lease whose token says the same: as long as everything goes well. */
export function fenceOf({ generation, attempt }: JobRow): FailFence & ReleaseFence {
  return { generation, attempt, tokenAttempt: attempt }
}

export const FAILED: FailureRecord = {
  now: NOW + 100,
  error: '{"code":"e"}',
  errors: '[{"attempt":1,"code":"e"}]',
}

/** A job whose first attempt has ended it: copied into the DLX queue by a nack, and all settled. */
export async function died(
  ledger: Ledger,
  given: Parameters<typeof newJob>[0] & { isDeadLetter?: boolean; now?: number } = {},
): Promise<JobRow> {
  const { isDeadLetter = true, now = NOW, ...job } = given
  const { id, ...row } = await fetched(ledger, job)
  const change = { ...FAILED, now, to: 'discarded', isDeadLetter, copy: 'nack' } as const
  await ledger.fail(id, fenceOf({ id, ...row }), change)
  await copyCame(ledger, id, row.generation)
  ledger.tokenReturned(id, row.generation)
  await settleLazily(ledger)
  return rowOf(ledger, id)
}

/** Our copy of a rejected delivery, by `ojs.system.dead-letters`, of a job that the ledger has discarded. */
export async function copyCame(ledger: Ledger, id: string, generation: number): Promise<void> {
  const { queue = 'q', attempt = 1 } = ledger.find(id) ?? {}
  const token = {
    ...{ id, queue, generation, attempt, isExpired: false, wasInQueue: false },
    describe: () => ({ error: null, errors: null, isDeadLetter: false }),
    adopt: () => {
      throw new OjsError('invalid_request', 'not a job')
    },
  }
  await ledger.discardDead(token, { now: NOW, wall: NOW })
}

/** What is kept instead of counted says what counting says, of every queue. */
export function expectCounts({ ledger, recount }: LedgerHarness): void {
  const { states, deadLetters: dead, claimable } = recount()
  for (const { name } of ledger.queues()) {
    const counted = states.get(name) ?? ledger.counts('nowhere')
    expect(ledger.counts(name), name).toEqual(counted)
    expect(ledger.deadLetterCount(name), name).toBe(dead.get(name) ?? 0)
    expect(ledger.claimable(name), name).toBe(claimable.get(name) ?? 0)
  }
  const total = [...dead.values()].reduce((sum, count) => sum + count, 0)
  expect(ledger.deadLetterCount()).toBe(total)
}
