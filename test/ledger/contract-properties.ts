import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isTerminal, type JobRow } from '../../src/job/job.ts'
import type { LeaseFence, Ledger } from '../../src/ledger/ledger.ts'
import { newJob } from '../support/jobs.ts'
import { type LedgerHarness, NOW, settleLazily, TERMS, token } from './harness.ts'

const QUEUES = ['alpha', 'beta']

/** What somebody does to one of four jobs; mostly with the right numbers. */
interface Action {
  verb: (typeof VERBS)[number]
  job: number
  /** Added to the attempt that would be right. */
  attemptOff: number
  /** Taken from the row's generation. */
  generationOff: number
  /** Taken from the row's nonce. */
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
  'handOverAll',
  'rearm',
  'tokenReturned',
  'deadLetterCopied',
  'extendLeases',
  'reopen',
] as const

const action: fc.Arbitrary<Action> = fc.record({
  verb: fc.constantFrom(...VERBS),
  job: fc.nat(3),
  attemptOff: fc.constantFrom(0, 0, 0, 0, -1, 1, 2),
  generationOff: fc.constantFrom(0, 0, 0, 0, 1, -1),
  nonceOff: fc.constantFrom(0, 0, 1),
})

/** Actions of one inner list happen in the same event-loop turn. */
const history = fc.array(fc.array(action, { minLength: 1, maxLength: 4 }), { maxLength: 25 })

/** Whatever happens in whatever order, what must always be true is true. */
export function propertyContract(harness: () => LedgerHarness): void {
  describe('any sequence of operations', () => {
    it('keeps the counts, one winner, and the rules of attempts and generations', async () => {
      let round = 0
      await fc.assert(
        fc.asyncProperty(history, async (turns) => {
          await new Run(harness(), `${++round}`).play(turns)
        }),
        { numRuns: 60 },
      )
    }, 30_000)
  })
}

type Outcome = { won: 'insert' | 'claim' | 'withdraw' | 'end' | null; id: string }

class Run {
  readonly #harness: LedgerHarness
  /** Jobs of a run have ids of their own, so that the runs can share one file. */
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
      const before = this.#rows()
      const outcomes = await Promise.all(turn.map((step) => this.#act(step)))
      await settleLazily(this.#ledger)
      this.#check(before, this.#rows(), outcomes, turn)
      if (turn.some(({ verb }) => verb === 'reopen')) await this.#reopen()
    }
    expect(this.#harness.inspect()).toEqual([])
  }

  #rows(): Map<string, JobRow | null> {
    return new Map(this.#ids.map((id) => [id, this.#ledger.find(id)]))
  }

  async #reopen(): Promise<void> {
    const before = this.#rows()
    const counts = QUEUES.map((queue) => this.#ledger.counts(queue))
    await this.#harness.reopen()
    expect(this.#rows()).toEqual(before)
    expect(QUEUES.map((queue) => this.#ledger.counts(queue))).toEqual(counts)
  }

  #numbers(step: Action, id: string) {
    const row = this.#ledger.find(id)
    const generation = Math.max(0, (row?.generation ?? 0) - step.generationOff)
    const attempt = Math.max(1, (row?.attempt ?? 0) + step.attemptOff)
    return {
      nonce: (row?.outbox ?? 0) - step.nonceOff,
      lease: { id, generation, attempt },
      /** Of a token. */
      next: { generation, attempt: row?.state === 'active' ? attempt : attempt + 1 },
    }
  }

  async #act(step: Action): Promise<Outcome> {
    const id = this.#ids[step.job] ?? ''
    const { nonce, lease, next } = this.#numbers(step, id)
    switch (step.verb) {
      case 'insert': {
        const job = newJob({ id, queue: QUEUES[step.job % 2] ?? '', maxAttempts: 4 })
        const inserted = await this.#ledger.insert(job, NOW)
        if (inserted.outcome === 'inserted') {
          expect(this.#nonces).not.toContain(inserted.outbox)
          this.#nonces.add(inserted.outbox)
        }
        return { won: inserted.outcome === 'inserted' ? 'insert' : null, id }
      }
      case 'withdraw':
        return { won: (await this.#ledger.withdraw(id, nonce)) ? 'withdraw' : null, id }
      case 'claim':
      case 'claimTwice': {
        const adopt = () => newJob({ id, queue: QUEUES[step.job % 2] ?? '', maxAttempts: 4 })
        const arriving = token(id, { ...next, adopt })
        const tokens = step.verb === 'claim' ? [arriving] : [arriving, arriving]
        const results = await this.#ledger.claim(tokens, TERMS)
        const claims = results.filter(({ verdict }) => verdict === 'claimed')
        expect(claims.length).toBeLessThanOrEqual(1)
        return { won: claims.length > 0 ? 'claim' : null, id }
      }
      case 'complete': {
        const done = await this.#ledger.complete(
          id,
          { attempt: lease.attempt },
          { now: NOW, result: null },
        )
        return { won: done === 'stale' ? null : 'end', id }
      }
      case 'cancel':
        return { won: (await this.#ledger.cancel(id, NOW)) === 'stale' ? null : 'end', id }
      case 'confirmed':
        this.#ledger.confirmed(id, nonce)
        return { won: null, id }
      default:
        return this.#actAside(step, lease)
    }
  }

  /** What neither starts nor ends an attempt. */
  async #actAside(step: Action, lease: LeaseFence): Promise<Outcome> {
    const { id, generation, attempt } = lease
    if (step.verb === 'release') await this.#ledger.release(id, lease)
    if (step.verb === 'handOver') await this.#ledger.handOver([lease])
    if (step.verb === 'handOverAll') await this.#ledger.handOver()
    if (step.verb === 'rearm') await this.#ledger.rearm(QUEUES[step.job % 2] ?? '')
    if (step.verb === 'extendLeases') await this.#ledger.extendLeases(NOW + attempt)
    if (step.verb === 'tokenReturned') this.#ledger.tokenReturned(id, generation)
    if (step.verb === 'deadLetterCopied') this.#ledger.deadLetterCopied(id, generation)
    return { won: null, id }
  }

  #check(
    before: Map<string, JobRow | null>,
    after: Map<string, JobRow | null>,
    outcomes: Outcome[],
    turn: Action[],
  ): void {
    const counted = this.#harness.recount()
    for (const queue of QUEUES) {
      if (counted.has(queue)) expect(this.#ledger.counts(queue)).toEqual(counted.get(queue))
    }
    for (const id of this.#ids) {
      const [was, is] = [before.get(id) ?? null, after.get(id) ?? null]
      checkRow(is)
      const won = outcomes.filter((outcome) => outcome.id === id).map((outcome) => outcome.won)
      const isReleased = turn.some((step) => step.verb === 'release')
      checkStep(was, is, won, isReleased)
    }
  }
}

/** What is true of every row at rest. */
function checkRow(row: JobRow | null): void {
  if (row === null) return
  const isActive = row.state === 'active'
  expect(row.leaseExpiresAt !== null).toBe(isActive)
  expect(row.holder !== null).toBe(isActive)
  expect(row.leaseMs !== null).toBe(isActive)
  if (isTerminal(row.state) || isActive) expect(row.outbox).toBeNull()
  expect(row.completedAt !== null && row.cancelledAt !== null).toBe(false)
}

/** What may become of a row in one turn. */
function checkStep(
  was: JobRow | null,
  is: JobRow | null,
  won: Outcome['won'][],
  isReleased: boolean,
): void {
  const wins = (what: Outcome['won']) => won.filter((each) => each === what).length
  expect(wins('end')).toBeLessThanOrEqual(1)
  if (was === null || is === null) {
    // Nothing ever disappears, and a winner leaves a row.
    expect(was).toBeNull()
    if (won.some((each) => each !== null)) expect(is).not.toBeNull()
    return
  }
  // An id starts over only after a withdrawal, one generation at a time.
  expect(is.generation - was.generation).toBe(wins('insert'))
  if (wins('insert') > 0) return
  if (isTerminal(was.state)) expect(is.state).toBe(was.state)
  if (was.state === 'completed' || was.state === 'cancelled') {
    expect(is).toEqual({ ...was, tokenOut: is.tokenOut })
  }
  if (!isReleased) expect(is.attempt).toBeGreaterThanOrEqual(was.attempt)
  if (wins('claim') === 0 && !isReleased) expect(is.attempt).toBe(was.attempt)
}
