import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JobRow } from '../../../src/job/job.ts'
import type { ReportedEvent, Said } from '../../../src/job/native/report.ts'
import { isStale } from '../../../src/job/stale.ts'
import type { Ledger } from '../../../src/ledger/ledger.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  askedBy,
  copyCame,
  FAILED,
  failAttempt,
  fenceOf,
  giveBack,
  jobMessage,
  type LedgerHarness,
  NOW,
  overdueRows,
  revive,
  rowOf,
  settleLazily,
  TERMS,
  type UnderTest,
} from '../harness.ts'

const RETRY_QUEUE_MS = 250
const LEASE_MS = 1000

const MOVES = [
  'relay',
  'relay',
  'relayUnconfirmed',
  'take',
  'take',
  'take',
  'takeUnreported',
  'die',
  'die',
  'release',
  'release',
  'releaseThenDie',
  'dieReleasing',
  'done',
  'retry',
  'retry',
  'retryThenDie',
  'reportRetryThenDie',
  'leaveRetry',
  'discard',
  'reportDiscardThenDie',
  'beat',
  'hear',
  'hear',
  'httpTake',
  'httpTake',
  'httpTakeNackLost',
  'httpAck',
  'httpCrash',
  'loseLease',
  'loseLease',
  'wait',
  'promote',
  'crash',
  'deleteQueue',
  'deleteQueue',
  'missQueue',
  'dropHead',
  'httpRequeue',
  'httpRequeueUnconfirmed',
  'httpFailToRetryQueue',
  'httpFailToRetryQueue',
  'handOver',
  'loseRetryQueue',
  'revive',
  'revive',
  'other',
  'other',
  'other',
  'other',
  'httpFail',
  'httpFail',
  'httpDiscard',
  'httpDiscardNackLost',
] as const

type Move = (typeof MOVES)[number]

/**
 * Two native workers and the gateway, each of which can die at any point: a job always has a job message in
 * RabbitMQ, a job message that the ledger owes, or a worker that runs it.
 */
export function nativeConservationContract({ harness, runs }: UnderTest): void {
  describe('a job of native workers under any sequence of moves and faults', () => {
    it('ends once the faults are over, and has its DLX copy when it is discarded', async () => {
      await fc.assert(
        fc.asyncProperty(histories, fc.integer({ min: 1, max: 6 }), async (moves, maxAttempts) => {
          const world = await World.begin(harness, maxAttempts)
          for (const move of moves) await world.play(move)
          await world.drain()
          expect(await world.state()).toMatch(/completed|discarded/)
          await world.drainEnded()
          expect(await world.isCopyMissing()).toBe(false)
        }),
        { numRuns: runs(600) },
      )
    })
  })
}

const DEAD = { to: 'discarded', isDeadLetter: true, copy: 'nack' } as const

/** Long enough for a few deaths in a row, and short enough that the job seldom ends before. */
const histories = fc.array(fc.constantFrom(...MOVES), { maxLength: 16, size: 'max' })

interface JobMessage {
  generation: number
  attempt: number
  redelivered: boolean
  /** The queue was deleted while a worker or the gateway had the job message, which cannot be requeued. */
  isVoid?: boolean
}

interface Running {
  jobMessage: JobMessage
  attempt: number
}

class World {
  readonly #harness: LedgerHarness
  readonly #id: string
  #queue: JobMessage[] = []
  #retryQueue: JobMessage[] = []
  /** What each of the two native workers runs; a worker that died comes back under a new name. */
  #natives: [Running | null, Running | null] = [null, null]
  #names: [number, number] = [1, 1]
  /** The native worker that makes the next move. */
  #at: 0 | 1 = 0
  /** The delivery that the gateway holds. */
  #held: JobMessage | null = null
  /** The reports in the control queue. */
  #reports: ReportedEvent[] = []
  #now = NOW
  /** The job message was lost with its queue, or acknowledged, so that no nack can make a DLX copy of it. */
  #isMessageLost = false

  static async begin(harness: LedgerHarness, maxAttempts: number): Promise<World> {
    const id = newJob().id
    const over = { maxAttempts, visibilityTimeoutMs: LEASE_MS, timeoutMs: 0 }
    await harness.ledger.insert(newJob({ id, queue: `q-${id}`, ...over }), NOW)
    return new World(harness, id)
  }

  constructor(harness: LedgerHarness, id: string) {
    this.#harness = harness
    this.#id = id
  }

  get #native(): Running | null {
    return this.#natives[this.#at]
  }

  set #native(running: Running | null) {
    this.#natives[this.#at] = running
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

  /** Whether the DLX queue lacks the copy of a discarded job (seed 002 §5.5). */
  async isCopyMissing(): Promise<boolean> {
    const { state, deadLetterCopied } = await this.#row()
    return state === 'discarded' && !deadLetterCopied && !this.#isMessageLost
  }

  async play(move: Move): Promise<void> {
    switch (move) {
      case 'relay':
      case 'relayUnconfirmed':
        return await this.#relay(move === 'relay')
      case 'take':
      case 'takeUnreported':
        return await this.#take(move === 'take')
      case 'die':
        return this.#die()
      case 'release':
      case 'releaseThenDie':
      case 'dieReleasing':
        return await this.#release(move)
      case 'beat':
        return await this.#beat()
      case 'hear':
        return await this.#hear()
      case 'httpTake':
      case 'httpTakeNackLost':
        return await this.#httpTake(move === 'httpTakeNackLost')
      case 'httpAck':
        return await this.#httpAck()
      case 'httpCrash':
        return this.#httpCrash()
      case 'httpRequeue':
      case 'httpRequeueUnconfirmed':
        return await this.#httpRequeue(move === 'httpRequeueUnconfirmed')
      case 'httpFail':
      case 'httpFailToRetryQueue':
        return await this.#httpFail(move === 'httpFailToRetryQueue' ? RETRY_QUEUE_MS : null)
      case 'httpDiscard':
      case 'httpDiscardNackLost':
        return await this.#httpDiscard(move === 'httpDiscardNackLost')
      case 'dropHead': {
        const dropped = this.#queue.shift()
        return dropped && (await this.#dies(dropped, true))
      }
      case 'loseLease':
        return await this.#loseLease()
      case 'wait':
        this.#now += RETRY_QUEUE_MS
        this.#queue.push(...this.#retryQueue.splice(0))
        return
      case 'deleteQueue':
      case 'missQueue':
        return await this.#missQueue(move === 'deleteQueue')
      case 'other':
        this.#at = this.#at === 0 ? 1 : 0
        return
      case 'handOver':
        return await this.#handOver()
      case 'loseRetryQueue':
        return await this.#loseRetryQueue()
      case 'revive':
        if ((await this.#row()).state !== 'discarded') return
        await revive(this.#ledger, this.#id, this.#now)
        return
      case 'promote':
        await this.#ledger.promote(this.#now, this.#now, 10)
        return
      case 'crash':
        this.#httpCrash()
        return await this.#harness.reopen()
      default:
        return await this.#end(move)
    }
  }

  /** Publishes the owed job message to where the row points. A confirm may be lost, the message is not. */
  async #relay(isConfirmed: boolean): Promise<void> {
    const { state, outbox, generation, attempt } = await this.#row()
    if (outbox === null || !['available', 'retryable', 'discarded'].includes(state)) return
    const next = { generation, attempt: attempt + 1, redelivered: false }
    if (state === 'available') this.#queue.push(next)
    if (state === 'retryable') this.#retryQueue.push(next)
    if (state !== 'discarded') this.#isMessageLost = false
    if (!isConfirmed) return
    if (state === 'discarded') this.#ledger.copyConfirmed(this.#id, outbox)
    else this.#ledger.confirmed(outbox)
    await settleLazily(this.#ledger)
  }

  async #take(isReported: boolean): Promise<void> {
    if (this.#native !== null) return
    const next = this.#queue.shift()
    if (next === undefined) return
    const attempt = next.redelivered ? await this.#ask(next) : next.attempt
    if (attempt === null) return
    this.#native = { jobMessage: next, attempt }
    if (isReported) await this.#tell(attempt, { event: 'started' })
  }

  /** Claims a redelivered job message. Returns the attempt to run it as, or null. */
  async #ask(next: JobMessage): Promise<number | null> {
    const isHeld = this.#held !== null
    const question = askedBy(this.#name, { ...next, id: this.#id }, { isHeldHere: () => isHeld })
    const terms = {
      now: this.#now,
      wall: this.#now,
      workerId: this.#name,
      defaultLeaseMs: LEASE_MS,
    }
    const answer = await this.#ledger.claimNative(question, terms)
    if (answer.decision === 'run') return answer.attempt
    if (answer.decision === 'discard') await this.#dies(next)
    return null
  }

  get #name(): string {
    return `native-${'ab'[this.#at]}-${this.#names[this.#at]}`
  }

  async #tell(attempt: number, said: Said): Promise<void> {
    const generation = this.#native?.jobMessage.generation ?? (await this.#row()).generation
    this.#reports.push({ id: this.#id, generation, attempt, workerId: this.#name, said })
  }

  /**
   * The gateway finds a queue missing, which an operator has deleted with its messages or which exists
   * after all: it reads the control queue, declares the queue again and publishes.
   */
  async #missQueue(isGone: boolean): Promise<void> {
    if (isGone) {
      this.#isMessageLost = true
      this.#queue = []
      for (const running of this.#natives) if (running) running.jobMessage.isVoid = true
      if (this.#held) this.#held.isVoid = true
    }
    await this.#hear()
    await this.#ledger.rearm((await this.#row()).queue, this.#now)
    await this.#relay(true)
  }

  #giveBack(jobMessage: JobMessage): void {
    if (!jobMessage.isVoid) this.#queue.unshift({ ...jobMessage, redelivered: true })
  }

  #die(): void {
    if (this.#native) this.#giveBack(this.#native.jobMessage)
    this.#native = null
    this.#names[this.#at]++
  }

  /** A worker shuts down and comes back under a new name or the same; `dieReleasing` only reports it. */
  async #release(how: 'release' | 'releaseThenDie' | 'dieReleasing'): Promise<void> {
    if (this.#native === null) return
    const { jobMessage: back, attempt } = this.#native
    await this.#tell(attempt, { event: 'released', messageAttempt: back.attempt })
    if (how === 'dieReleasing') return
    this.#giveBack(back)
    this.#native = null
    if (how === 'releaseThenDie') this.#names[this.#at]++
  }

  async #beat(): Promise<void> {
    if (this.#native === null) return
    const beat = { now: this.#now, wall: this.#now, workerId: this.#name, leaseMs: null }
    await this.#ledger.beatNative([this.#id], { ...beat, defaultLeaseMs: LEASE_MS })
  }

  /** The gateway reads the control queue. */
  async #hear(): Promise<void> {
    const terms = { now: this.#now, defaultLeaseMs: LEASE_MS, random: () => 0 }
    await this.#ledger.applyReports(this.#reports.splice(0), terms)
  }

  /** RabbitMQ dead-letters a delivery that was nacked, or a message that its queue has dropped. */
  async #dies(dead: JobMessage, wasInQueue = false): Promise<void> {
    const describe = () => ({ error: '1', errors: '[]', isDeadLetter: true })
    const letter = { ...jobMessage(this.#id, dead), describe, isExpired: false, wasInQueue }
    await this.#ledger.discardDead(letter, { now: this.#now, wall: this.#now })
  }

  async #end(move: Move): Promise<void> {
    const running = this.#native
    if (running === null) return
    const { attempt } = running
    const failure = { code: 'e', type: 'e', message: 'm', retryable: true }
    const failed = (outcome: Extract<Said, { event: 'failed' }>['outcome']) =>
      this.#tell(attempt, { event: 'failed', failure, outcome })
    const retried = {
      decision: 'retry',
      delay_ms: RETRY_QUEUE_MS,
      rung_ms: RETRY_QUEUE_MS,
    } as const
    if (move.startsWith('r') && move !== 'reportDiscardThenDie') {
      const { generation } = running.jobMessage
      this.#retryQueue.push({ generation, attempt: attempt + 1, redelivered: false })
      if (move !== 'retryThenDie') await failed(retried)
    }
    if (move === 'done') await this.#tell(attempt, { event: 'completed', result: null })
    if (move === 'leaveRetry') await failed(null)
    if (move === 'discard' || move === 'reportDiscardThenDie') await failed({ decision: 'discard' })
    if (move.endsWith('ThenDie')) return this.#die()
    // The worker has acknowledged the job message, so whoever discards the job now has no delivery to nack.
    if (move === 'done' || move === 'leaveRetry') this.#isMessageLost = true
    this.#native = null
    if (move === 'discard' && !running.jobMessage.isVoid) await this.#dies(running.jobMessage)
  }

  async #httpTake(isNackLost: boolean): Promise<void> {
    if (this.#held !== null) return
    const next = this.#queue.shift()
    if (next === undefined) return
    const terms = { ...TERMS, now: this.#now, wall: this.#now }
    const [result] = await this.#ledger.claim([jobMessage(this.#id, next)], terms)
    const verdict = result?.verdict
    if (verdict === 'claimed') this.#held = next
    else if (verdict === 'hold') this.#queue.push(next)
    else if (verdict === 'dead-letter' || verdict === 'exhausted') {
      if (isNackLost) return this.#giveBack(next)
      await this.#copied(next)
    } else if (verdict !== 'rearmed') this.#ledger.messageReturned(this.#id, next.generation)
  }

  async #httpAck(): Promise<void> {
    if (this.#held === null) return
    const { attempt } = await this.#row()
    await this.#ledger.complete(
      this.#id,
      { attempt, workerId: 'worker-1' },
      { now: this.#now, result: null },
    )
    this.#held = null
  }

  /** A client without a worker id fails the job, even one that a native worker runs. */
  async #httpFail(retryQueueMs: number | null): Promise<void> {
    const row = await this.#row()
    if (row.state !== 'active') return
    if (retryQueueMs !== null)
      await this.#ledger.recordRetryQueue({ queue: row.queue, delayMs: retryQueueMs })
    const retry = {
      to: 'retryable',
      dueAt: this.#now + RETRY_QUEUE_MS,
      delayMs: RETRY_QUEUE_MS,
      retryQueueMs,
    } as const
    const change = { ...FAILED, now: this.#now, ...retry, isMessageBack: this.#held !== null }
    await failAttempt(this.#ledger, row.id, fenceOf(row), change)
    this.#held = null
  }

  async #httpDiscard(isNackLost: boolean): Promise<void> {
    const row = await this.#row()
    if (row.state !== 'active') return
    await failAttempt(this.#ledger, row.id, fenceOf(row), { ...FAILED, now: this.#now, ...DEAD })
    if (isNackLost) this.#httpCrash()
    else await this.#nackHeld()
  }

  async #nackHeld(): Promise<void> {
    const held = this.#held
    this.#held = null
    if (held && !held.isVoid) await this.#copied(held)
  }

  async #copied({ generation }: JobMessage): Promise<void> {
    await copyCame(this.#ledger, this.#id, generation)
    this.#ledger.messageReturned(this.#id, generation)
    await settleLazily(this.#ledger)
  }

  /**
   * When another job message is owed, this one is acknowledged after that, or requeued if its publish fails.
   */
  async #httpRequeue(isUnconfirmed: boolean): Promise<void> {
    const row = await this.#row()
    if (row.state !== 'active') return
    const messageAttempt = this.#held?.attempt ?? null
    const released = await giveBack(this.#ledger, row.id, { ...fenceOf(row), messageAttempt })
    if (!isStale(released) && (released.outbox === null || isUnconfirmed)) this.#httpCrash()
    this.#held = null
  }

  /** The lease is longer than RabbitMQ's delivery timeout: `acknowledgeEarly`. */
  async #handOver(): Promise<void> {
    if (this.#held === null) return
    await this.#ledger.handOver([await this.#row()])
    this.#held = null
  }

  /** The retry queue is gone; the gateway reads the control queue before it arms the retries again. */
  async #loseRetryQueue(): Promise<void> {
    this.#isMessageLost ||= this.#retryQueue.length > 0
    this.#retryQueue = []
    await this.#hear()
    await this.#ledger.rearmRetryQueue(
      { queue: (await this.#row()).queue, delayMs: RETRY_QUEUE_MS },
      this.#now,
    )
    await this.#relay(true)
  }

  /** The gateway loses its channels, and RabbitMQ requeues its deliveries. */
  #httpCrash(): void {
    if (this.#held) this.#giveBack(this.#held)
    this.#held = null
  }

  /** Does what the reaper does. */
  async #loseLease(): Promise<void> {
    this.#now += LEASE_MS + 1
    for (const row of await overdueRows(this.#ledger, this.#now, 10)) {
      if (row.id !== this.#id) continue
      const record = { ...FAILED, now: this.#now }
      const isNative = row.holder === 'native'
      const isAgain = isNative || row.attempt < row.maxAttempts
      const change = isAgain ? ({ to: 'available' } as const) : DEAD
      await failAttempt(this.#ledger, row.id, fenceOf(row), { ...record, ...change })
      if (isAgain) this.#held = null
      else await this.#nackHeld()
    }
  }

  /** Plays until the job has ended, without further faults. */
  async drain(): Promise<void> {
    await this.play('die')
    await this.play('other')
    await this.play('die')
    await this.play('httpCrash')
    for (let round = 0; round < 20; round++) {
      for (const move of ['hear', 'loseLease', 'relay', 'wait', 'promote', 'relay'] as const) {
        await this.play(move)
      }
      for (const move of ['take', 'done', 'hear'] as const) await this.play(move)
      if (/completed|discarded/.test(await this.state())) return
    }
  }

  /** Delivers the remaining job messages to the gateway, or to a worker that claims them. */
  async drainEnded(): Promise<void> {
    const takes = ['httpTake', 'take'] as const
    for (let round = 0; round < 20; round++) {
      for (const move of ['wait', 'relay', takes[round % 2], 'die', 'hear'] as const) {
        if (move) await this.play(move)
      }
    }
  }
}
