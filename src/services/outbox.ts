import { setImmediate as nextTurn } from 'node:timers/promises'
import { isHeldByLedger, type JobRow, type OwedMessage } from '../job/job.ts'
import { untilDeadline } from '../lifecycle.ts'
import type { Deps } from '../operations/deps.ts'
import { sendToken } from '../operations/token/send-token.ts'
import { RelayLine, type RelayOutcome } from './relay-line.ts'
import { TooLargeJobs } from './too-large-jobs.ts'

const PAGE = 500
/** Of what is offered in one turn. What RabbitMQ's publisher refuses is in memory until its end. */
const TURN_BYTES = 16 * 1024 * 1024

export interface OutboxOptions {
  /** A look goes over everything again so long after the last that did, in ms. */
  everyMs: number
  /** A line has done what it took: another look would find work for it. */
  onRoom(): void
}

const OWED_NOW: ReadonlySet<string> = new Set(['available', 'scheduled', 'discarded', 'cancelled'])

/**
 * Is a message owed now? It goes where the row points: a job to its queue, a schedule to the
 * plugin, a discarded one to the dead letter exchange, the word of a cancelled one to the workers.
 * A retry whose rung never confirmed is held by the ledger until it is due, and goes to the queue.
 */
function isOwedNow({ state }: Pick<JobRow, 'state'>): boolean {
  return OWED_NOW.has(state)
}

/** What the ledger owes RabbitMQ, and who is at it: reads it in order, and offers it to the lines. */
export class Outbox {
  readonly #deps: Deps
  readonly #options: OutboxOptions
  readonly #lines = new Map<string, RelayLine>()
  /** Everything up to this nonce was offered, or passed; nonces grow with the commits. */
  #seen = 0
  /**
   * Owed messages that somebody else was sending when we came to them, by nonce. He may give up, so
   * the next look offers them again.
   */
  readonly #passed = new Map<number, OwedMessage>()
  #lookedAtAll = Number.NEGATIVE_INFINITY
  readonly #tooLarge: TooLargeJobs
  #inFlight = 0
  #counts = { published: 0, failed: 0 }
  #onSettled: (() => void) | null = null

  constructor(deps: Deps, options: OutboxOptions) {
    this.#deps = deps
    this.#options = options
    // A look at everything tries each of them.
    this.#tooLarge = new TooLargeJobs(2 * options.everyMs)
  }

  /** Something of what was owed was in somebody's hand. */
  get hasPassed(): boolean {
    return this.#passed.size > 0
  }

  /**
   * Queues of which RabbitMQ has taken nothing that the ledger owes for so long, in ms. Not those whose
   * messages are on their way.
   */
  stuck(): ReadonlyMap<string, number> {
    const now = this.#deps.clock.now()
    const stuck = new Map<string, number>()
    const note = (queue: string, since: number) =>
      stuck.set(queue, Math.max(now - since, stuck.get(queue) ?? 0))
    for (const { queue, stuckSince } of this.#lines.values()) {
      if (stuckSince !== null) note(queue, stuckSince)
    }
    for (const [queue, since] of this.#tooLarge.waiting(now)) note(queue, since)
    return stuck
  }

  /** Offers what is owed to its line, as long as the broker takes publishes. */
  async look(isStopped: () => boolean): Promise<void> {
    const now = this.#deps.clock.now()
    if (now - this.#lookedAtAll >= this.#options.everyMs) {
      this.#lookedAtAll = now
      this.#seen = 0
    }
    this.#offerPassed()
    this.#seen = await this.#walk(this.#seen, (owed) => this.#lineOf(owed), isStopped)
    await this.#offerAgain(isStopped)
    for (const [key, line] of this.#lines) if (line.isIdle) this.#lines.delete(key)
  }

  /** The next look is at everything. */
  forgive(): void {
    this.#lookedAtAll = Number.NEGATIVE_INFINITY
    for (const line of this.#lines.values()) line.forgive()
  }

  async stop(deadline: AbortSignal): Promise<void> {
    for (const line of this.#lines.values()) line.stop()
    if (this.#inFlight === 0) return
    const settled = new Promise<void>((resolve) => {
      this.#onSettled = resolve
    })
    await untilDeadline(settled, deadline)
  }

  /** One by one: behind the first of them may be all that the lines have at work. */
  #offerPassed(): void {
    if (this.#deps.broker.status().state !== 'up') return
    const passed = [...this.#passed.values()]
    this.#passed.clear()
    for (const owed of passed) this.#offer(owed, this.#lineOf(owed))
  }

  #offer(owed: OwedMessage, line: RelayLine | null): void {
    if (this.#deps.tokens.isInHand(owed.id)) this.#passed.set(owed.outbox, owed)
    else line?.offer(owed)
  }

  /** To lines that have done what they took, what they left before that. */
  async #offerAgain(isStopped: () => boolean): Promise<void> {
    const lines = new Set([...this.#lines.values()].filter((line) => line.hasRoom))
    const from = [...lines].map((line) => line.startAgain() ?? Number.POSITIVE_INFINITY)
    const take = (owed: OwedMessage) => {
      const line = this.#lineOf(owed)
      return lines.has(line) ? line : null
    }
    const isEnough = () => isStopped() || [...lines].every((line) => line.hasLeft)
    if (lines.size > 0) await this.#walk(Math.min(...from) - 1, take, isEnough)
  }

  /** Page by page, from nonces greater than `after`. Returns the last that it has come to. */
  async #walk(
    after: number,
    lineOf: (owed: OwedMessage) => RelayLine | null,
    isEnough: () => boolean,
  ): Promise<number> {
    const { broker, ledger } = this.#deps
    let last = after
    while (!isEnough() && broker.status().state === 'up') {
      // Of what was committed a moment ago, each caller now has its own token in hand (`sending`).
      // What wakes the relay is often in that very commit: it would publish first, and the PUSH
      // whose token it was would be refused, withdrawn and answered 503 while the job runs.
      await nextTurn()
      const page = ledger.outboxPage(last, PAGE)
      let bytes = 0
      for (const owed of page) {
        last = owed.outbox
        // Those in flight while the page was read: their confirm may come before their turn does.
        if (isOwedNow(owed)) this.#offer(owed, lineOf(owed))
        bytes += owed.bytes
        if (bytes < TURN_BYTES) continue
        await nextTurn()
        bytes = 0
      }
      if (page.length === 0) break
    }
    return last
  }

  #lineOf({ state, queue }: OwedMessage): RelayLine {
    // Its dead letter queue may be stuck while the queue itself is not.
    const key = `${state} ${queue}`
    const present = this.#lines.get(key)
    if (present !== undefined) return present
    const { logger } = this.#deps
    const line = new RelayLine(queue, {
      send: (owed) => this.#send(owed),
      onRoom: this.#options.onRoom,
      now: () => this.#deps.clock.now(),
      onStuck: (forMs) =>
        logger.warn({ queue, state, forMs }, 'RabbitMQ takes nothing of what a queue is owed'),
      onMoving: () => logger.info({ queue, state }, 'RabbitMQ takes what a queue is owed again'),
    })
    this.#lines.set(key, line)
    return line
  }

  /** Never rejects. */
  async #send(owed: OwedMessage): Promise<RelayOutcome> {
    this.#inFlight += 1
    const outcome = await this.#publish(owed).catch((err: unknown): RelayOutcome => {
      this.#deps.logger.error({ err, jobId: owed.id }, 'token cannot be relayed')
      return 'failed'
    })
    this.#inFlight -= 1
    if (outcome === 'sent') this.#counts.published += 1
    if (outcome === 'failed') this.#counts.failed += 1
    if (this.#inFlight === 0) this.#onAllSettled()
    return outcome
  }

  async #publish({ id, outbox }: OwedMessage): Promise<RelayOutcome> {
    const row = this.#deps.ledger.find(id)
    // It has moved on since the page was read, or somebody is sending it, or has.
    if (row === null || row.outbox !== outbox || !isOwedNow(row)) return 'skipped'
    if (this.#deps.ledger.isConfirming(outbox)) return 'skipped'
    // One whose token came far too early (a foreign one): the ledger holds it until it is due.
    if (isHeldByLedger(row)) return 'skipped'
    if (this.#deps.tokens.isInHand(id)) return 'skipped'
    const { outcome } = await sendToken(this.#deps, row)
    if (outcome === 'too-large') return this.#leaveTooLarge(row)
    if (outcome === 'not-owed') return 'skipped'
    return outcome === 'confirmed' ? 'sent' : 'failed'
  }

  /** Not for its queue to wait for: it will not go before RabbitMQ takes larger ones. */
  #leaveTooLarge(row: JobRow): RelayOutcome {
    const { id, queue } = row
    if (this.#tooLarge.refused(row, this.#deps.clock.now())) {
      const text = "a job waits that is larger than RabbitMQ's max_message_size"
      this.#deps.logger.warn({ jobId: id, queue }, text)
    }
    return 'skipped'
  }

  #onAllSettled(): void {
    const { published, failed } = this.#counts
    this.#counts = { published: 0, failed: 0 }
    if (published + failed > 0) this.#deps.logger.info({ published, failed }, 'outbox relayed')
    this.#onSettled?.()
  }
}
