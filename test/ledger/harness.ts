import { expect } from 'vitest'

import { OjsError } from '../../src/errors.ts'
import type { Cause } from '../../src/job/history/changes.ts'
import type { JobRow, NewJob, OwedMessage } from '../../src/job/job.ts'
import { ANY_JOB } from '../../src/job/search/filter.ts'
import type { Stale } from '../../src/job/stale.ts'
import type { Refused } from '../../src/ledger/bulk.ts'
import type { Inserted } from '../../src/ledger/enqueued.ts'
import type { StateCounts } from '../../src/ledger/known.ts'
import type {
  BeatFate,
  ClaimedMessage,
  ClaimTerms,
  FailureChange,
  FailureRecord,
  LeaseFence,
  OverdueTerms,
  ReleaseFence,
  SettleFence,
} from '../../src/ledger/leases.ts'
import type { Ledger } from '../../src/ledger/ledger.ts'
import type { NativeQuestion } from '../../src/ledger/native.ts'
import { inOrder } from '../support/broker/order.ts'
import { newJob } from '../support/gateway/jobs.ts'

/** One ledger under test, on its own storage. Each implementation of the ledger has a harness. */
export interface LedgerHarness {
  /** Replaced by another object in `reopen` and `plant`. */
  readonly ledger: Ledger
  /** Closes and opens the ledger, as a restart of the gateway does. */
  reopen(): Promise<void>
  /**
   * Writes columns of existing rows behind the ledger's back and reopens it, to reach states that no
   * operation leads to, and rows that only a fault could leave.
   */
  plant(rows: readonly Planted[]): Promise<void>
  /** Counts the rows of each queue. Queues without rows may be missing. */
  recount(): Promise<Recount>
  /** Returns what the implementation finds wrong in its storage. */
  inspect(): Promise<string[]>
  /** Prunes idempotency keys as a ledger does that keeps so many. */
  pruneKeys(capacity: number, now: number, limit: number): Promise<number>
  /** The same of unique keys that were kept of deleted jobs. */
  pruneKeptKeys(capacity: number, now: number, limit: number): Promise<number>
  /** The queues that counts are stored of. */
  countedQueues(): Promise<string[]>
  destroy(): Promise<void>
}

interface Recount {
  states: Map<string, StateCounts>
  deadLetters: Map<string, number>
  claimable: Map<string, number>
  held: Map<string, number>
  /** Active jobs by concurrency key: as kept, and as counted. */
  keys: { kept: Map<string, number>; counted: Map<string, number> }
}

/** What each part of the contract works with. Its members always refer to the running test's ledger. */
export interface UnderTest {
  readonly harness: LedgerHarness
  readonly ledger: Ledger
  /** The row of an existing id. */
  row(id: string): Promise<JobRow>
  /** `plant` of the harness. */
  plant(...rows: Planted[]): Promise<void>
  /** How many of these random runs to make. */
  runs(usual: number): number
}

export type Planted = { id: string } & Partial<Omit<JobRow, 'id' | 'carry' | 'checkpoint'>>

export const NOW = 1_700_000_000_000

export const TERMS: ClaimTerms = {
  now: NOW,
  wall: NOW,
  workerId: 'worker-1',
  leaseMs: null,
  defaultLeaseMs: 30_000,
}

/** A job message of a job that the ledger knows. */
export function jobMessage(id: string, given: Partial<ClaimedMessage> = {}): ClaimedMessage {
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

/** Stores a new job. Returns its id and its outbox nonce (0 when it owes no job message). */
export async function pushed(
  ledger: Ledger,
  given: Parameters<typeof newJob>[0] = {},
): Promise<{ id: string; outbox: number }> {
  const job = newJob(given)
  const { outbox } = insertedOf(await ledger.insert(job, NOW))
  return { id: job.id, outbox: outbox ?? 0 }
}

/** Stores a job and claims it as `worker-1`. */
export async function fetched(
  ledger: Ledger,
  given: Parameters<typeof newJob>[0] = {},
): Promise<JobRow> {
  const { id } = await pushed(ledger, given)
  const [result] = await ledger.claim([jobMessage(id)], TERMS)
  if (result?.verdict !== 'claimed') throw new Error(`not claimed: ${result?.verdict}`)
  return result.job
}

export function insertedOf(inserted: Inserted): Inserted & { outcome: 'inserted' } {
  if (inserted.outcome !== 'inserted') throw new Error('the id was taken')
  return inserted
}

/** Waits until the lazy writes so far are committed, because this write shares their group commit. */
export async function settleLazily(ledger: Ledger): Promise<void> {
  await ledger.handOver([])
}

/** Prunes every ended row whose job message is back, and returns how many rows went. */
export async function prunedRows({ ledger }: Pick<LedgerHarness, 'ledger'>): Promise<number> {
  await settleLazily(ledger)
  const at = NOW + 1e12
  const ends = { completed: at, cancelled: at, discarded: at, deadLetters: at, withdrawn: at }
  return await ledger.prune(ends, at, 100)
}

export async function rowOf(ledger: Ledger, id: string): Promise<JobRow> {
  const row = await ledger.read.find(id)
  if (!row) throw new Error(`no row ${id}`)
  return row
}

/** The names of the queues with stale copies. */
export function staleQueues(ledger: Ledger): string[] {
  return inOrder(ledger.known.staleCopies().keys())
}

/** A sweep of the queue's stale copies; `during` runs between its begin and its end. */
export async function sweep(
  ledger: Ledger,
  queue: string,
  during: () => Promise<unknown> = async () => {},
): Promise<void> {
  const mark = ledger.known.staleCopies().get(queue)
  if (mark === undefined) throw new Error(`${queue} is not stale`)
  await during()
  await ledger.swept(queue, mark)
}

/** The properties of a new job that its row repeats. */
export function asked({ start: _, unique: __, ...job }: NewJob): Omit<NewJob, 'start' | 'unique'> {
  return job
}

/** The outbox entry of a row that owes a message. */
export function owedBy({ id, queue, state, outbox, envelope }: JobRow): OwedMessage {
  if (outbox === null) throw new Error(`${id} owes nothing`)
  return { id, queue, state, outbox, bytes: Buffer.byteLength(envelope) }
}

/** The fence of a row, for a lease whose job message has the same attempt number. */
export function fenceOf({ generation, attempt }: JobRow): Omit<LeaseFence, 'id'> & ReleaseFence {
  return { generation, attempt, messageAttempt: attempt, now: NOW }
}

export const FAILED: FailureRecord = {
  now: NOW + 100,
  error: '{"code":"e"}',
  errors: '[{"attempt":1,"code":"e"}]',
}

/** A job that was discarded after its first attempt, with its DLX copy recorded and its job message back. */
export async function died(
  ledger: Ledger,
  given: Parameters<typeof newJob>[0] & { isDeadLetter?: boolean; now?: number } = {},
): Promise<JobRow> {
  const { isDeadLetter = true, now = NOW, ...job } = given
  const { id, ...row } = await fetched(ledger, job)
  const change = { ...FAILED, now, to: 'discarded', isDeadLetter, copy: 'nack' } as const
  await failAttempt(ledger, id, fenceOf({ id, ...row }), change)
  await copyCame(ledger, id, row.generation)
  ledger.messageReturned(id, row.generation)
  await settleLazily(ledger)
  return await rowOf(ledger, id)
}

/** Delivers the copy of a discarded job's rejected job message from `ojs.system.dead-letters`. */
export async function copyCame(ledger: Ledger, id: string, generation: number): Promise<void> {
  const { queue = 'q', attempt = 1 } = (await ledger.read.find(id)) ?? {}
  const jobMessage = {
    ...{ id, queue, generation, attempt, isExpired: false, wasInQueue: false },
    describe: () => ({ error: null, errors: null, isDeadLetter: false }),
    adopt: () => {
      throw new OjsError('invalid_request', 'not a job')
    },
  }
  await ledger.discardDead(jobMessage, { now: NOW, wall: NOW })
}

/** Compares the totals that the ledger keeps of each queue with a count of the rows. */
export async function expectCounts(harness: LedgerHarness): Promise<void> {
  const { ledger } = harness
  const { states, deadLetters: dead, claimable, held, keys } = await harness.recount()
  expect(keys.kept).toEqual(keys.counted)
  for (const { name } of ledger.known.queues()) {
    const counted = states.get(name) ?? ledger.known.counts('nowhere')
    expect(ledger.known.counts(name), name).toEqual(counted)
    expect(ledger.known.deadLetterCount(name), name).toBe(dead.get(name) ?? 0)
    expect(ledger.known.claimable(name), name).toBe(claimable.get(name) ?? 0)
    expect(ledger.known.held(name), name).toBe(held.get(name) ?? 0)
  }
  const total = [...dead.values()].reduce((sum, count) => sum + count, 0)
  expect(ledger.known.deadLetterCount()).toBe(total)
}

/** The ids whose leases a BEAT extended. */
export function extendedOf(fates: readonly BeatFate[]): string[] {
  return fates.flatMap((fate) => (fate.outcome === 'extended' ? [fate.lease.id] : []))
}

/** What a write says whose fence does not match the row as it is now. */
export async function staleAt({ read }: Pick<Ledger, 'read'>, id: string): Promise<Stale> {
  return { outcome: 'stale', row: await read.standing(id) }
}

const DEAD_LETTER = { states: ['discarded'], deadLettersOnly: true, scope: null } as const

/** Retries a dead letter. `stale`: it is none (any more). */
export async function revive(
  { bulk }: Pick<Ledger, 'bulk'>,
  id: string,
  now: number,
  cause: Cause = {},
): Promise<JobRow | 'stale' | ({ outcome: 'conflict' } & NonNullable<Refused['rival']>)> {
  const steering = { ...DEAD_LETTER, action: 'retry', sparesRetried: false } as const
  const [one] = await bulk.act([id], steering, { now, wall: NOW, cause, maxMs: 1_000 })
  if (one?.did === 'retry') return one.job
  const rival = one?.did === null ? one.rival : undefined
  return rival === undefined ? 'stale' : { outcome: 'conflict', ...rival }
}

/** False: it is no dead letter (any more). */
export async function deleteDeadLetter(
  { bulk }: Pick<Ledger, 'bulk'>,
  id: string,
  now: number,
): Promise<boolean> {
  const steering = { ...DEAD_LETTER, action: 'delete', sparesRetried: false } as const
  const [one] = await bulk.act([id], steering, { now, wall: NOW, cause: {}, maxMs: 1_000 })
  return one?.did === 'delete'
}

/** A page of the dead letters of one queue (null: of all), the newest first, with the texts of each. */
export async function deadLetters(
  { read }: Pick<Ledger, 'read'>,
  queue: string | null,
  { limit = 10, offset = 0 } = {},
): Promise<JobRow[]> {
  const filter = { ...ANY_JOB, isDeadLetter: true, queues: queue === null ? [] : [queue] }
  const list = { order: 'discarded_at', isAscending: false, after: null, isWhole: true } as const
  const { jobs } = await read.search.page(filter, { ...list, limit, offset })
  return jobs.flatMap(({ whole }) => (whole === null ? [] : [whole]))
}

/** FAIL, with a change that does not depend on the row. Resolves with the job as it is then. */
export async function failAttempt(
  ledger: Pick<Ledger, 'fail'>,
  id: string,
  fence: SettleFence,
  change: FailureChange,
): Promise<JobRow | Stale> {
  const done = await ledger.fail(id, fence, () => change)
  if (done.outcome === 'undecided') throw new Error('a change was decided')
  return done.outcome === 'stale' ? done : done.job
}

/** Takes a job back. Resolves with the job as it is then. */
export async function giveBack(
  ledger: Pick<Ledger, 'release'>,
  id: string,
  fence: ReleaseFence,
): Promise<JobRow | Stale> {
  const done = await ledger.release(id, fence)
  return done.outcome === 'stale' ? done : done.job
}

/** The rows whose time is over, all of them left as they are. */
export async function overdueRows(
  ledger: Pick<Ledger, 'endOverdue'>,
  now: number,
  limit: number,
  which: OverdueTerms['which'] = 'all',
): Promise<JobRow[]> {
  const left = await ledger.endOverdue({ now, limit, which }, () => null)
  return left.map((one) => (one.outcome === 'undecided' ? one.row : one.before))
}

/** What a native worker asks about a message that was delivered again. */
export function askedBy(
  workerId: string,
  message: { id: string; attempt?: number; generation?: number },
  given: Partial<NativeQuestion> = {},
): NativeQuestion {
  const known = {
    isAgain: false,
    isRepeated: false,
    isKeyed: false,
    areReportsOut: false,
    ofQueue: null,
    heardOn: 'default',
  }
  return {
    generation: 0,
    attempt: 1,
    workerId,
    ...known,
    isHeldHere: () => false,
    ...message,
    ...given,
  }
}

/** Another native worker has the message behind a live lease, and drops it. */
export async function takeOver(
  ledger: Pick<Ledger, 'claimNative'>,
  { id, attempt, generation }: LeaseFence,
): Promise<void> {
  const question = askedBy('another worker', { id, attempt, generation })
  await ledger.claimNative(question, TERMS)
}
