import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isTerminal, type JobRow, type NewJob } from '../../../src/job/job.ts'
import type { Said } from '../../../src/job/native/report.ts'
import { UNREPORTED } from '../../../src/job/retry/error-history.ts'
import { isStale } from '../../../src/job/stale.ts'
import type { FailureChange, LeaseFence } from '../../../src/ledger/leases.ts'
import type { Ledger } from '../../../src/ledger/ledger.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { REPORT } from '../contract/reports.ts'
import {
  deleteDeadLetter,
  expectCounts,
  FAILED,
  failAttempt,
  giveBack,
  jobMessage,
  type LedgerHarness,
  NOW,
  revive,
  settleLazily,
  TERMS,
  takeOver,
  type UnderTest,
} from '../harness.ts'

const QUEUES = ['alpha', 'beta']

/** An operation on one of four jobs, mostly with the right numbers. */
interface Action {
  verb: (typeof VERBS)[number]
  job: number
  /** Added to the right attempt. */
  attemptOff: number
  /** Subtracted from the row's generation. */
  generationOff: number
  /** Subtracted from the row's nonce. */
  nonceOff: number
}

const VERBS = [
  'insert',
  'insert',
  'confirmed',
  'withdraw',
  'claim',
  'claim',
  'claim',
  'claimTwice',
  'release',
  'complete',
  'cancel',
  'handOver',
  'handBack',
  'rearm',
  'messageReturned',
  'extendLeases',
  'insertScheduled',
  'insertPending',
  'insertAll',
  'withdrawAll',
  'activate',
  'promote',
  'failToRetryQueue',
  'failToRetryQueue',
  'failToLedger',
  'failToAvailable',
  'failByNack',
  'failByPublish',
  'discardDead',
  'expire',
  'extend',
  'revive',
  'deleteDeadLetter',
  'prune',
  'rearmRetryQueue',
  'reportStart',
  'reportDone',
  'reportFail',
  'reportFail',
  'beatNative',
  'handOverAny',
  'loseNativeLease',
  'cancelAny',
  'reopen',
] as const

const START: Partial<Record<Action['verb'], Pick<NewJob, 'start' | 'expiresAt'>>> = {
  insertScheduled: { start: { state: 'scheduled', dueAt: NOW }, expiresAt: NOW + 1 },
  insertPending: { start: { state: 'pending', dueAt: null }, expiresAt: NOW + 1 },
}

const LISTED_WHEN_EXPIRED = '{"args":[],"retry":{"on_exhaustion":"dead_letter"}}'

const RETRY = {
  ...FAILED,
  to: 'retryable',
  dueAt: NOW,
  delayMs: 250,
  isMessageBack: false,
} as const
const DISCARD = { ...FAILED, to: 'discarded' } as const

const FAILURES: Partial<Record<Action['verb'], FailureChange>> = {
  failToRetryQueue: { ...RETRY, retryQueueMs: 250 },
  failToLedger: { ...RETRY, retryQueueMs: null },
  failToAvailable: { ...FAILED, to: 'available' },
  failByNack: { ...DISCARD, isDeadLetter: true, copy: 'nack' },
  failByPublish: { ...DISCARD, isDeadLetter: true, copy: 'publish' },
}

const RETRIED = { decision: 'retry', delay_ms: 250, rung_ms: 250 } as const
const FAILURE = { code: 'e', type: 'e', message: 'm', retryable: true }

const SAID: Partial<Record<Action['verb'], Said>> = {
  reportStart: { event: 'started' },
  reportDone: { event: 'completed', result: null },
  reportFail: { event: 'failed', failure: FAILURE, outcome: RETRIED },
}

const LATER = new Set<Action['verb']>([
  'withdrawAll',
  'activate',
  'promote',
  'discardDead',
  'revive',
  'deleteDeadLetter',
  'cancelAny',
])

/** Cutoffs that every ended row has passed. */
const CUTOFFS = {
  completed: NOW + 999,
  cancelled: NOW + 999,
  discarded: NOW + 999,
  withdrawn: NOW + 999,
  deadLetters: NOW + 999,
}

const action: fc.Arbitrary<Action> = fc.record({
  verb: fc.constantFrom(...VERBS),
  job: fc.nat(3),
  attemptOff: fc.constantFrom(0, 0, 0, 0, -1, 1, 2),
  generationOff: fc.constantFrom(0, 0, 0, 0, 1, -1),
  nonceOff: fc.constantFrom(0, 0, 1),
})

/** Actions of one inner list are called in the same turn of the event loop, so they share a group commit. */
const history = fc.array(fc.array(action, { minLength: 1, maxLength: 4 }), { maxLength: 30 })

/** Invariants that hold after any operations in any order. */
export function propertyContract({ harness, runs }: UnderTest): void {
  describe('any sequence of operations', () => {
    it('keeps the counts right, one winner, and the rules of attempts and generations', async () => {
      let round = 0
      await fc.assert(
        fc.asyncProperty(history, async (turns) => {
          await new Run(harness, `${++round}`).play(turns)
        }),
        { numRuns: runs(80) },
      )
    })
  })
}

type Won = 'insert' | 'claim' | 'withdraw' | 'end' | 'revive' | 'fail'
type Outcome = { won: Won | null; id: string }

class Run {
  readonly #harness: LedgerHarness
  /** Each run has its own ids, so that all runs can share one file. */
  readonly #ids: string[]
  readonly #nonces = new Set<number>()

  constructor(harness: LedgerHarness, round: string) {
    this.#harness = harness
    this.#ids = [0, 1, 2, 3].map((n) => `job-${round}-${n}`)
  }

  get #ledger(): Ledger {
    return this.#harness.ledger
  }

  async play(turns: Action[][]): Promise<void> {
    for (const turn of turns) {
      const before = await this.#rows()
      const outcomes = await Promise.all(turn.map((step) => this.#act(step)))
      await settleLazily(this.#ledger)
      await this.#check(before, await this.#rows(), outcomes, turn)
      if (turn.some(({ verb }) => verb === 'reopen')) await this.#reopen()
    }
    expect(await this.#harness.inspect()).toEqual([])
  }

  async #rows(): Promise<Map<string, JobRow | null>> {
    const rows = await Promise.all(this.#ids.map((id) => this.#ledger.read.find(id)))
    return new Map(this.#ids.map((id, i) => [id, rows[i] ?? null]))
  }

  async #reopen(): Promise<void> {
    const before = await this.#rows()
    const counts = QUEUES.map((queue) => this.#ledger.known.counts(queue))
    await this.#harness.reopen()
    expect(await this.#rows()).toEqual(before)
    expect(QUEUES.map((queue) => this.#ledger.known.counts(queue))).toEqual(counts)
  }

  async #numbers(step: Action, id: string) {
    const row = await this.#ledger.read.find(id)
    const generation = Math.max(0, (row?.generation ?? 0) - step.generationOff)
    const attempt = Math.max(1, (row?.attempt ?? 0) + step.attemptOff)
    return {
      nonce: (row?.outbox ?? 0) - step.nonceOff,
      lease: { id, generation, attempt },
      /** The numbers of a job message. */
      next: { generation, attempt: row?.state === 'active' ? attempt : attempt + 1 },
    }
  }

  async #act(step: Action): Promise<Outcome> {
    const id = this.#ids[step.job] ?? ''
    const { nonce, lease, next } = await this.#numbers(step, id)
    switch (step.verb) {
      case 'insert':
      case 'insertScheduled':
      case 'insertPending':
      case 'insertAll':
        return { won: (await this.#insert(step, id)) ? 'insert' : null, id }
      case 'withdraw':
        return { won: (await this.#ledger.withdraw(id, nonce)) ? 'withdraw' : null, id }
      case 'claim':
      case 'claimTwice': {
        const adopt = () => newJob({ id, queue: QUEUES[step.job % 2] ?? '', maxAttempts: 4 })
        const arriving = jobMessage(id, { ...next, adopt })
        const jobMessages = step.verb === 'claim' ? [arriving] : [arriving, arriving]
        const results = await this.#ledger.claim(jobMessages, TERMS)
        const claims = results.filter(({ verdict }) => verdict === 'claimed')
        expect(claims.length).toBeLessThanOrEqual(1)
        if (claims.length > 0) return { won: 'claim', id }
        // The job message had no attempt left, which ends the job, even one that it made the ledger adopt.
        return { won: results.some(({ verdict }) => verdict === 'exhausted') ? 'end' : null, id }
      }
      case 'complete': {
        const done = await this.#ledger.complete(
          id,
          { attempt: lease.attempt },
          { now: NOW, result: null },
        )
        return { won: isStale(done) ? null : 'end', id }
      }
      case 'cancel':
        return { won: isStale(await this.#ledger.cancel(id, NOW)) ? null : 'end', id }
      case 'confirmed':
        if ((await this.#ledger.read.find(id))?.state === 'discarded')
          this.#ledger.copyConfirmed(id, nonce)
        else this.#ledger.confirmed(nonce)
        return { won: null, id }
      default:
        return this.#actAside(step, lease)
    }
  }

  async #insert(step: Action, id: string): Promise<boolean> {
    const job = newJob({
      id,
      queue: QUEUES[step.job % 2] ?? '',
      maxAttempts: 4,
      envelope: step.attemptOff === 0 ? '{"args":[]}' : LISTED_WHEN_EXPIRED,
      ...START[step.verb],
    })
    const inserted =
      step.verb === 'insertAll'
        ? await this.#ledger.insertAll([job], NOW)
        : await this.#ledger.insert(job, NOW)
    if (inserted.outcome === 'duplicate') return false
    const [first = inserted] = 'stored' in inserted ? inserted.stored : []
    const outbox = 'outbox' in first ? first.outbox : null
    if (typeof outbox !== 'number') return true
    expect(this.#nonces).not.toContain(outbox)
    this.#nonces.add(outbox)
    return true
  }

  async #fail(lease: LeaseFence, change: FailureChange): Promise<Outcome> {
    const failed = await failAttempt(this.#ledger, lease.id, lease, change)
    if (isStale(failed)) return { won: null, id: lease.id }
    return { won: change.to === 'discarded' ? 'end' : 'fail', id: lease.id }
  }

  /** Operations on retries, dead letters and schedules. */
  async #actLater(step: Action, lease: LeaseFence): Promise<Outcome> {
    const { id } = lease
    const ledger = this.#ledger
    const nobody = { won: null, id }
    switch (step.verb) {
      case 'withdrawAll':
        return { won: (await ledger.withdrawAll([lease])).length === 0 ? 'withdraw' : null, id }
      case 'activate':
        await ledger.activate(id, NOW, NOW)
        return nobody
      case 'promote':
        await ledger.promote(NOW, NOW, 3)
        return nobody
      case 'discardDead': {
        const describe = () => ({ error: '1', errors: '[1]', isDeadLetter: step.job > 1 })
        const next = { ...lease, attempt: lease.attempt + (step.job % 2) }
        const how = { isExpired: step.job === 3, wasInQueue: step.job % 3 === 0 }
        const dead = { ...jobMessage(id, next), describe, ...how }
        if ((await ledger.read.find(id)) === null) return nobody
        const { outcome } = await ledger.discardDead(dead, { now: NOW, wall: NOW })
        return { won: outcome === 'discarded' ? 'end' : null, id }
      }
      case 'revive':
        return { won: (await revive(ledger, id, NOW)) === 'stale' ? null : 'revive', id }
      case 'cancelAny': {
        const cancelled = await ledger.cancelAny(id, QUEUES[0] ?? '', NOW)
        const isCancelled = typeof cancelled !== 'string' && !isStale(cancelled)
        return { won: isCancelled ? 'end' : null, id }
      }
      case 'deleteDeadLetter':
        return { won: (await deleteDeadLetter(ledger, id, NOW)) ? 'withdraw' : null, id }
      default:
        return nobody
    }
  }

  /** A report or heartbeat of a native worker. */
  async #report(step: Action, lease: LeaseFence): Promise<Outcome> {
    const { id } = lease
    const said = SAID[step.verb]
    if (said === undefined) {
      const beat = { now: NOW, wall: NOW, workerId: 'worker-1', leaseMs: null }
      const [result] = await this.#ledger.beatNative([id], { ...beat, defaultLeaseMs: 500 })
      return { won: result?.outcome === 'started' ? 'claim' : null, id }
    }
    const event = { ...lease, attempt: lease.attempt + (step.job % 2), workerId: 'worker-1', said }
    const [result] = await this.#ledger.applyReports([event], REPORT)
    if (result === undefined || !('job' in result)) return { won: null, id }
    return { won: isTerminal(result.job.state) ? 'end' : 'claim', id }
  }

  /** Operations that neither start nor end an attempt, and those that the other functions handle. */
  async #actAside(step: Action, lease: LeaseFence): Promise<Outcome> {
    const { id, generation, attempt } = lease
    const change = FAILURES[step.verb]
    if (change) return await this.#fail(lease, change)
    if (LATER.has(step.verb)) return await this.#actLater(step, lease)
    if (step.verb === 'beatNative' || SAID[step.verb]) return await this.#report(step, lease)
    if (step.verb === 'handOverAny') await takeOver(this.#ledger, lease)
    if (
      step.verb === 'loseNativeLease' &&
      (await this.#ledger.read.find(id))?.holder === 'native'
    ) {
      return await this.#fail(lease, { ...FAILED, to: 'available' })
    }
    const beat = { now: NOW, workerId: 'worker-1', leaseMs: 500 }
    const late = { now: NOW, wall: NOW + 1, limit: 9 }
    if (step.verb === 'extend') await this.#ledger.extend([id], { ...beat, attempt })
    if (step.verb === 'expire') await this.#ledger.expire(late)
    if (step.verb === 'prune') await this.#ledger.prune(CUTOFFS, NOW, 2)
    if (step.verb === 'rearmRetryQueue') {
      await this.#ledger.rearmRetryQueue({ queue: QUEUES[step.job % 2] ?? '', delayMs: 250 }, NOW)
    }
    if (step.verb === 'release')
      await giveBack(this.#ledger, id, { ...lease, messageAttempt: lease.attempt, now: NOW })
    if (step.verb === 'handOver') await this.#ledger.handOver([lease])
    if (step.verb === 'handBack') await this.#ledger.handBack([lease])
    if (step.verb === 'rearm') await this.#ledger.rearm(QUEUES[step.job % 2] ?? '', NOW)
    if (step.verb === 'extendLeases') await this.#ledger.extendLeases(NOW + attempt)
    if (step.verb === 'messageReturned') this.#ledger.messageReturned(id, generation)
    return { won: null, id }
  }

  async #check(
    before: Map<string, JobRow | null>,
    after: Map<string, JobRow | null>,
    outcomes: Outcome[],
    turn: Action[],
  ): Promise<void> {
    await expectCounts(this.#harness)
    for (const id of this.#ids) {
      const [was, is] = [before.get(id) ?? null, after.get(id) ?? null]
      checkRow(is)
      // A tombstone that was there before is about an earlier generation.
      if (is?.generation === 0) expect(await this.#ledger.read.isTombstoned(id)).toBe(false)
      const won = outcomes.filter((outcome) => outcome.id === id).map((outcome) => outcome.won)
      checkStep(was, is, won, new Set(turn.map((step) => step.verb)))
    }
  }
}

/** Invariants of every row between turns. */
function checkRow(row: JobRow | null): void {
  if (row === null) return
  const isActive = row.state === 'active'
  expect(row.leaseExpiresAt !== null).toBe(isActive)
  // A native worker may still have a job whose lease has run out.
  if (row.state !== 'available' || row.holder !== 'native') {
    expect(row.holder !== null).toBe(isActive)
  }
  expect(row.leaseMs !== null).toBe(isActive)
  const owesNothing =
    isTerminal(row.state) && row.state !== 'discarded' && row.state !== 'cancelled'
  if (isActive || owesNothing) expect(row.outbox).toBeNull()
  expect(row.completedAt !== null && row.cancelledAt !== null).toBe(false)
  // A job message is somewhere, or owed, or the ledger will owe it when the job is due.
  if (row.state === 'available') expect(row.messageOut).toBe(true)
  if (row.state === 'retryable' || row.state === 'scheduled') expect(row.dueAt).not.toBeNull()
  if (row.isDeadLetter) expect(row.state).toBe('discarded')
  // A withdrawn row is a refused PUSH, or what remains of a discarded job.
  if (row.state !== 'withdrawn') {
    expect(row.discardedAt !== null).toBe(row.state === 'discarded')
  }
}

/** Whether a turn that prunes has stored another row under the same id, by an insert or an adoption. */
function isOtherRow(was: JobRow, won: readonly (Won | null)[]): boolean {
  return won.includes('insert') || (isTerminal(was.state) && won.some((each) => each !== null))
}

/** An ended row changes only its messageOut and outbox, and the errors of earlier attempts. */
function checkFinal(was: JobRow, is: JobRow, verbs: ReadonlySet<Action['verb']>): void {
  const mayBeReported = verbs.has('reportFail') && was.errors?.includes(UNREPORTED) === true
  const errors = mayBeReported ? is.errors : was.errors
  // The retry queue that had its job message is gone, so the job message will not reach the job queue when it
  // is due.
  const isRetryQueueGone =
    verbs.has('rearmRetryQueue') && was.retryQueueMs !== null && is.retryQueueMs === null
  const retryQueue = isRetryQueueGone ? { retryQueueMs: null, dueAt: null } : {}
  expect(is).toEqual({
    ...was,
    ...retryQueue,
    errors,
    messageOut: is.messageOut,
    outbox: is.outbox,
  })
  expect([was.outbox, null]).toContain(is.outbox)
}

/** What one turn may change in a row. */
function checkStep(
  was: JobRow | null,
  is: JobRow | null,
  won: (Won | null)[],
  verbs: ReadonlySet<Action['verb']>,
): void {
  const wins = (what: Won) => won.filter((each) => each === what).length
  expect(wins('end')).toBeLessThanOrEqual(1 + wins('revive') + wins('insert'))
  // A pruned id may be used again in the same turn, from its first generation.
  if (verbs.has('prune') && (is === null || is.generation < (was?.generation ?? 0))) return
  if (was === null || is === null) {
    // Nothing else disappears, and a winner leaves a row.
    expect(was).toBeNull()
    if (won.some((each) => each !== null)) expect(is).not.toBeNull()
    return
  }
  if (verbs.has('prune') && isOtherRow(was, won)) return
  // An id starts over only after a withdrawal or as a dead letter, one generation at a time.
  expect(is.generation - was.generation).toBe(wins('insert') + wins('revive'))
  if (wins('insert') + wins('revive') > 0) return
  if (isTerminal(was.state) && is.state !== 'withdrawn') expect(is.state).toBe(was.state)
  if (is.state === 'withdrawn') return
  if (was.state === 'completed' || was.state === 'cancelled') checkFinal(was, is, verbs)
  const isReleased = verbs.has('release')
  if (!isReleased) expect(is.attempt).toBeGreaterThanOrEqual(was.attempt)
  if (wins('claim') + wins('end') === 0 && !isReleased) expect(is.attempt).toBe(was.attempt)
}
