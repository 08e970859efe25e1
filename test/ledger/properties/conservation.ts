import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JobRow, NewJob } from '../../../src/job/job.ts'
import type { ClaimResult, FailureChange } from '../../../src/ledger/leases.ts'
import type { Ledger } from '../../../src/ledger/ledger.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  copyCame,
  FAILED,
  failAttempt,
  fenceOf,
  giveBack,
  jobMessage,
  type LedgerHarness,
  NOW,
  revive,
  rowOf,
  settleLazily,
  TERMS,
  type UnderTest,
} from '../harness.ts'

const RETRY_QUEUE_MS = 250

const MOVES = [
  'publish',
  'publish',
  'publishUnconfirmed',
  'deliver',
  'deliver',
  'deliver',
  'ack',
  'failToRetryQueue',
  'failToRetryQueue',
  'failToLedger',
  'loseLease',
  'nack',
  'discardHandedOver',
  'handOver',
  'release',
  'wait',
  'wait',
  'promote',
  'crash',
  'loseQueue',
  'loseRetryQueue',
  'revive',
] as const

/** Another job of the same concurrency key begins, or ends: until then the job is held back. */
const RIVAL_MOVES = ['rivalBegins', 'rivalBegins', 'rivalEnds'] as const

type Move = (typeof MOVES)[number] | (typeof RIVAL_MOVES)[number]

/** No sequence of faults may leave a live job without a job message in RabbitMQ or one owed by the ledger. */
export function conservationContract({ harness, runs }: UnderTest): void {
  describe('a job and its job messages under any sequence of moves and faults', () => {
    it.each([
      ['', MOVES, null],
      [', with a concurrency key', [...MOVES, ...RIVAL_MOVES], 'k'],
    ] as const)('ends once the faults are over%s', async (_, possible, key) => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.constantFrom<Move>(...possible), { maxLength: 40 }),
          async (moves) => {
            const world = await World.begin(harness, key)
            for (const move of moves) await world.play(move)
            await world.drain()
            expect(await world.state()).toMatch(/completed|discarded/)
          },
        ),
        { numRuns: runs(150) },
      )
    })
  })
}

interface JobMessage {
  generation: number
  attempt: number
}

/**
 * One job, and the parts of RabbitMQ that matter: a queue, a retry queue, a delivery that the gateway holds.
 */
class World {
  readonly #harness: LedgerHarness
  readonly #id: string
  readonly #name: string
  #queue: JobMessage[] = []
  #retryQueue: JobMessage[] = []
  #held: JobMessage | null = null
  readonly #carry: NewJob['carry']
  #rival: string | null = null
  #now = NOW

  static async begin(harness: LedgerHarness, key: string | null): Promise<World> {
    const queue = `q-${newJob().id}`
    const carry = key === null ? null : { concurrency: { key: `${key} ${queue}`, limit: 1 } }
    const job = newJob({ queue, maxAttempts: 6, carry })
    await harness.ledger.insert(job, NOW)
    return new World(harness, job.id, job.queue, carry)
  }

  constructor(harness: LedgerHarness, id: string, queue: string, carry: NewJob['carry']) {
    this.#harness = harness
    this.#id = id
    this.#name = queue
    this.#carry = carry
  }

  get #ledger(): Ledger {
    return this.#harness.ledger
  }

  #row(): Promise<JobRow> {
    return rowOf(this.#ledger, this.#id)
  }

  async state(): Promise<string> {
    return (await this.#row()).state
  }

  async play(move: Move): Promise<void> {
    switch (move) {
      case 'publish':
        return await this.#publish(true)
      case 'publishUnconfirmed':
        return await this.#publish(false)
      case 'deliver':
        return await this.#deliver()
      case 'wait':
        return this.#wait()
      case 'promote':
        await this.#ledger.promote(this.#now, this.#now, 10)
        return
      case 'crash':
        return await this.#crash()
      case 'loseQueue':
        return await this.#loseQueue()
      case 'loseRetryQueue':
        this.#retryQueue = []
        await this.#ledger.rearmRetryQueue(
          { queue: this.#name, delayMs: RETRY_QUEUE_MS },
          this.#now,
        )
        return
      case 'rivalBegins':
        return await this.#beginRival()
      case 'rivalEnds':
        return await this.#endRival()
      case 'revive':
        await revive(this.#ledger, this.#id, this.#now)
        return
      default:
        return await this.#endLease(move)
    }
  }

  /** Publishes the owed job message to where the row points. A confirm may be lost, the message is not. */
  async #publish(isConfirmed: boolean): Promise<void> {
    const { state, outbox, retryQueueMs, generation, attempt } = await this.#row()
    if (outbox === null || (state === 'retryable' && retryQueueMs === null)) return
    const next = { generation, attempt: attempt + 1 }
    if (state === 'available') this.#queue.push(next)
    if (state === 'retryable') this.#retryQueue.push(next)
    if (!isConfirmed) return
    if (state === 'discarded') this.#ledger.copyConfirmed(this.#id, outbox)
    else this.#ledger.confirmed(outbox)
    await settleLazily(this.#ledger)
  }

  async #deliver(): Promise<void> {
    const next = this.#queue.shift()
    if (!next) return
    const terms = { ...TERMS, now: this.#now, wall: this.#now }
    const [result] = await this.#ledger.claim([jobMessage(this.#id, next)], terms)
    await this.#settle(next, result?.verdict)
  }

  async #settle(next: JobMessage, verdict: ClaimResult['verdict'] | undefined): Promise<void> {
    if (verdict === 'claimed') {
      this.#held = next
      return
    }
    if (verdict === 'hold') this.#queue.push(next)
    if (verdict === 'hand-over') this.#held = null
    if (verdict === 'dead-letter' || verdict === 'exhausted') {
      await copyCame(this.#ledger, this.#id, next.generation)
    }
    if (verdict !== 'hold') this.#ledger.messageReturned(this.#id, next.generation)
    await settleLazily(this.#ledger)
  }

  async #beginRival(): Promise<void> {
    if (this.#rival !== null) return
    const rival = newJob({ queue: `rivals of ${this.#name}`, carry: this.#carry })
    await this.#ledger.insert(rival, this.#now)
    const [result] = await this.#ledger.claim([jobMessage(rival.id)], TERMS)
    if (result?.verdict === 'claimed') this.#rival = rival.id
    else await this.#ledger.cancel(rival.id, this.#now)
  }

  async #endRival(): Promise<void> {
    const rival = this.#rival
    this.#rival = null
    if (rival !== null) await this.#ledger.complete(rival, {}, { now: this.#now, result: null })
  }

  /** The retry queue's TTL passes before or after the due time in the ledger. This move never promotes. */
  #wait(): void {
    this.#now += RETRY_QUEUE_MS
    this.#queue.push(...this.#retryQueue.splice(0))
  }

  async #crash(): Promise<void> {
    await this.#harness.reopen()
    this.#giveBack()
  }

  /** RabbitMQ requeues the delivery, which the gateway has not acknowledged. */
  #giveBack(): void {
    if (this.#held) this.#queue.unshift(this.#held)
    this.#held = null
  }

  async #loseQueue(): Promise<void> {
    this.#queue = []
    this.#held = null
    await this.#ledger.rearm(this.#name, this.#now)
  }

  async #endLease(move: Move): Promise<void> {
    const row = await this.#row()
    if (row.state !== 'active') return
    const held = this.#held
    if (move === 'handOver') {
      await this.#ledger.handOver([row])
      this.#held = null
    } else if (move === 'release') {
      await giveBack(this.#ledger, row.id, fenceOf(row))
      this.#giveBack()
    } else if (move === 'ack') {
      await this.#ledger.complete(row.id, fenceOf(row), { now: this.#now, result: null })
      this.#held = null
    } else if (move !== 'nack' || held) {
      await failAttempt(this.#ledger, row.id, fenceOf(row), this.#failure(move, held !== null))
      // Law 2 publishes before it acknowledges; acknowledging first must not lose the job either.
      this.#held = null
    }
  }

  #failure(move: Move, isMessageBack: boolean): FailureChange {
    const record = { ...FAILED, now: this.#now }
    const retry = {
      to: 'retryable',
      dueAt: this.#now + RETRY_QUEUE_MS,
      delayMs: RETRY_QUEUE_MS,
      isMessageBack,
    } as const
    switch (move) {
      case 'failToRetryQueue':
        return { ...record, ...retry, retryQueueMs: RETRY_QUEUE_MS }
      case 'failToLedger':
        return { ...record, ...retry, retryQueueMs: null }
      case 'nack':
        return { ...record, to: 'discarded', isDeadLetter: true, copy: 'nack' }
      case 'discardHandedOver':
        return { ...record, to: 'discarded', isDeadLetter: true, copy: 'publish' }
      default:
        return { ...record, to: 'available' }
    }
  }

  /** Works without faults: publishes what is owed, promotes what is due, completes what is delivered. */
  async drain(): Promise<void> {
    await this.#endRival()
    for (let round = 0; round < 20; round++) {
      await this.play('ack')
      if ((await this.#row()).state === 'completed' || (await this.#row()).state === 'discarded')
        return
      await this.play('publish')
      await this.play('wait')
      await this.play('promote')
      await this.play('publish')
      await this.play('deliver')
    }
  }
}
