/** Reads what the ledger owes RabbitMQ, in order, and deals it out to one line per queue. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isHeldByLedger, isTerminal, type JobRow, type OwedMessage } from '../job/job.ts'
import { untilDeadline } from '../lifecycle.ts'
import type { Deps } from '../operations/deps.ts'
import { sendJobMessage } from '../operations/job-messages/send.ts'
import { QueueSender, type RelayOutcome } from './queue-sender.ts'
import { TooLargeJobs } from './too-large-jobs.ts'

const PAGE = 500
/** While jobs come, the outbox is empty many times a second. */
const TOLD_EVERY_MS = 1_000
/** Bytes offered per event-loop turn: messages that the publisher refuses stay in memory until its end. */
const TURN_BYTES = 16 * 1024 * 1024

export interface OutboxOptions {
  /** Time between two looks at the whole outbox, in ms. The looks between them see only what is new. */
  everyMs: number
  /** Called when a line has sent what it took and left more in the outbox: another look has work for it. */
  onRoom(): void
}

const OWED_NOW: ReadonlySet<string> = new Set(['available', 'scheduled', 'discarded', 'cancelled'])

/**
 * Is a message in this state sent by the relay? It goes where the row points: the job message of an available
 * job to its queue, that of a schedule to the delay plugin, the copy of a discarded job to the dead letter
 * exchange, the broadcast of a cancelled job to the workers. Not the job message of a retry whose retry queue
 * never confirmed: the ledger holds it until it is due, and then it goes to the queue.
 */
function isOwedNow({ state }: Pick<JobRow, 'state'>): boolean {
  return OWED_NOW.has(state)
}

/** Reads the messages that the ledger owes RabbitMQ, in order, and offers each to the line of its queue. */
export class Outbox {
  readonly #deps: Deps
  readonly #options: OutboxOptions
  readonly #lines = new Map<string, QueueSender>()
  /** Messages up to this nonce were offered to a line or put in `#passed`; nonces grow with the commits. */
  #seen = 0
  /**
   * Owed messages that another part of the gateway was sending when a look came to them, by nonce. That
   * publish may fail, so the next look offers them again.
   */
  readonly #passed = new Map<number, OwedMessage>()
  #lookedAtAll = Number.NEGATIVE_INFINITY
  readonly #tooLarge: TooLargeJobs
  #inFlight = 0
  /** Since the last line of the log. */
  #counts = { published: 0, failed: 0 }
  #toldAt = Number.NEGATIVE_INFINITY
  #onSettled: (() => void) | null = null

  constructor(deps: Deps, options: OutboxOptions) {
    this.#deps = deps
    this.#options = options
    // Each look at the whole outbox tries every one of these jobs again.
    this.#tooLarge = new TooLargeJobs(2 * options.everyMs)
  }

  /** The last look skipped messages that another part of the gateway was sending. */
  get hasPassed(): boolean {
    return this.#passed.size > 0
  }

  /**
   * Queues for which RabbitMQ has taken none of the owed messages, and for how long, in ms. Only after a
   * failure: messages that are just in flight do not count.
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

  /** Offers the owed messages to their lines, as long as the broker takes publishes. */
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

  /** Makes the next look go over the whole outbox, and lets lines that were set aside try again. */
  forgive(): void {
    this.#lookedAtAll = Number.NEGATIVE_INFINITY
    for (const line of this.#lines.values()) line.forgive()
  }

  async stop(deadline: AbortSignal): Promise<void> {
    for (const line of this.#lines.values()) line.stop()
    if (this.#inFlight === 0) return this.#tell()
    const settled = new Promise<void>((resolve) => {
      this.#onSettled = resolve
    })
    await untilDeadline(settled, deadline)
    this.#tell()
  }

  /** Offers the passed messages from memory: walking the outbox from the oldest of them could be long. */
  #offerPassed(): void {
    if (this.#deps.broker.status().state !== 'up') return
    const passed = [...this.#passed.values()]
    this.#passed.clear()
    for (const owed of passed) this.#offer(owed, this.#lineOf(owed))
  }

  #offer(owed: OwedMessage, line: QueueSender | null): void {
    if (this.#deps.jobMessages.isInHand(owed.id)) this.#passed.set(owed.outbox, owed)
    else line?.offer(owed)
  }

  /** Offers the messages that lines left in the outbox again, to those lines that have room by now. */
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

  /** Walks the outbox page by page, from nonces above `after`, and returns the last nonce that it reached. */
  async #walk(
    after: number,
    lineOf: (owed: OwedMessage) => QueueSender | null,
    isEnough: () => boolean,
  ): Promise<number> {
    const { broker, ledger } = this.#deps
    let last = after
    while (!isEnough() && broker.status().state === 'up') {
      // Wait one turn, so that every PUSH that was committed a moment ago has marked its job message as its
      // own (`jobMessages.sending`). The relay is often woken by that same commit. It would publish first,
      // and then the PUSH would be refused, withdrawn and answered 503 while its job runs.
      await nextTurn()
      const page = await ledger.read.outboxPage(last, PAGE)
      let bytes = 0
      for (const owed of page) {
        last = owed.outbox
        // Also messages in flight: `#offer` sets them aside, as their confirm may come before their turn.
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

  #lineOf({ state, queue }: OwedMessage): QueueSender {
    // A line per state and queue: a dead letter queue may be stuck while the job queue is not.
    const key = `${state} ${queue}`
    const present = this.#lines.get(key)
    if (present !== undefined) return present
    const { logger } = this.#deps
    const line = new QueueSender(queue, {
      send: (some) => this.#send(some),
      onRoom: this.#options.onRoom,
      now: () => this.#deps.clock.now(),
      onStuck: (forMs) =>
        logger.warn(
          { queue, state, forMs },
          'RabbitMQ accepts none of the messages owed to a queue',
        ),
      onMoving: () =>
        logger.info({ queue, state }, 'RabbitMQ accepts the messages owed to a queue again'),
    })
    this.#lines.set(key, line)
    return line
  }

  /** Publishes these messages, whose rows are read together. None of the outcomes rejects. */
  #send(some: readonly OwedMessage[]): Promise<RelayOutcome>[] {
    const rows = this.#rowsOf(some)
    return some.map((owed) => this.#sendOne(owed, rows))
  }

  /** The rows that still owe these messages, by their nonces; null: they cannot be read. Never rejects. */
  async #rowsOf(some: readonly OwedMessage[]): Promise<ReadonlyMap<number, JobRow> | null> {
    const { ledger, jobMessages, logger } = this.#deps
    // Only a job message can be needless because its job ends.
    for (const { id, state } of some) if (!isTerminal(state)) jobMessages.reading.begin(id)
    try {
      const rows = await ledger.read.owed(some.map(({ outbox }) => outbox))
      return new Map(rows.map((row) => [row.outbox ?? 0, row]))
    } catch (err) {
      logger.error({ err, jobs: some.length }, 'the rows of owed messages cannot be read')
      return null
    }
  }

  /** Publishes one message. Never rejects. */
  async #sendOne(
    owed: OwedMessage,
    reading: Promise<ReadonlyMap<number, JobRow> | null>,
  ): Promise<RelayOutcome> {
    this.#inFlight += 1
    const rows = await reading
    const outcome = await this.#publish(owed, rows).catch((err: unknown): RelayOutcome => {
      this.#deps.logger.error({ err, jobId: owed.id }, 'message of a job cannot be published')
      return 'failed'
    })
    this.#inFlight -= 1
    if (outcome === 'sent') this.#counts.published += 1
    if (outcome === 'failed') this.#counts.failed += 1
    if (this.#inFlight === 0) this.#onAllSettled()
    return outcome
  }

  async #publish(
    { id, state, outbox }: OwedMessage,
    rows: ReadonlyMap<number, JobRow> | null,
  ): Promise<RelayOutcome> {
    const { jobMessages, ledger } = this.#deps
    const ended = isTerminal(state) ? null : jobMessages.reading.end(id)
    if (ended !== null) {
      ledger.messageReturned(id, ended.generation)
      return 'skipped'
    }
    if (rows === null) return 'failed'
    const row = rows.get(outbox)
    // The row has moved on since the page was read, or its confirm is known.
    if (row === undefined || !isOwedNow(row)) return 'skipped'
    // The ledger holds this job until it is due (`rearm`: a foreign job message of it came far too early).
    if (isHeldByLedger(row)) return 'skipped'
    if (jobMessages.isInHand(id)) return 'skipped'
    const { outcome } = await sendJobMessage(this.#deps, row)
    if (outcome === 'too-large') return this.#leaveTooLarge(row)
    if (outcome === 'not-owed') return 'skipped'
    return outcome === 'confirmed' ? 'sent' : 'failed'
  }

  /** `skipped`, so that the queue does not wait for it: RabbitMQ refuses it until its limit is raised. */
  #leaveTooLarge(row: JobRow): RelayOutcome {
    const { id, queue } = row
    if (this.#tooLarge.refused(row, this.#deps.clock.now())) {
      const text = "message of a job is larger than RabbitMQ's max_message_size; the job waits"
      this.#deps.logger.warn({ jobId: id, queue }, text)
    }
    return 'skipped'
  }

  #onAllSettled(): void {
    if (this.#deps.clock.now() - this.#toldAt >= TOLD_EVERY_MS) this.#tell()
    this.#onSettled?.()
  }

  #tell(): void {
    const { published, failed } = this.#counts
    this.#counts = { published: 0, failed: 0 }
    this.#toldAt = this.#deps.clock.now()
    if (published + failed > 0) this.#deps.logger.info({ published, failed }, 'outbox relayed')
  }
}
