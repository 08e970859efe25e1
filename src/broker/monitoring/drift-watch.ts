/** Finds the few jobs whose message was lost: their queue stays empty at every look. */
import type { Logger } from '../../logger.ts'
import type { BrokerWarning } from '../broker.ts'
import type { JobCounts } from '../options.ts'

/** How long a queue must be empty, at every look, before its jobs count as having no message. */
const AFTER_MS = 60_000
/** Looks at a queue that are further apart than this do not tell who consumed it in between. */
const MAX_GAP_MS = 30_000

/** One look at a queue: ready messages and consumers, as RabbitMQ counts them. */
interface Look {
  ready: number
  consumers: number
}

export interface DriftWatchDeps {
  now(): number
  /** Jobs of the queue that are available, without those whose message a native worker is known to have. */
  claimable(queue: string): number
  /** Unsettled deliveries of this queue in this process. */
  unsettled(queue: string): number
  /** Do the queue's consumers acknowledge without reporting, with our knowledge? */
  isPlain(queue: string): boolean
  /** Our own consumers of the queue. */
  consumers(queue: string): number
  hooks: { jobs: Pick<JobCounts, 'onDrift'> }
  logger: Pick<Logger, 'warn'>
  /** Instead of `AFTER_MS`, for tests. */
  driftMs?: number | undefined
}

interface Drift {
  /** Jobs that were available before this have no message. */
  before: number
  count: number
}

/**
 * Finds available jobs without a message, however few: RabbitMQ shows their queue as empty at every look for a
 * minute, and nothing of it is held here. Over AMQP it cannot be seen what another consumer of the queue holds
 * unacknowledged. So jobs are published again without being asked only if no other consumer was seen on the
 * queue since they were stored; for all others there is a warning.
 */
export class DriftWatch {
  readonly #deps: DriftWatchDeps
  /** Since when each queue is empty, at every look. */
  readonly #emptySince = new Map<string, number>()
  /** Since when no other consumer was seen on each queue (null: one was), and when it was looked at last. */
  readonly #alone = new Map<string, { since: number | null; lookedAt: number }>()
  readonly #drifts = new Map<string, Drift>()
  /** When the last two rounds of looks have begun. */
  #rounds: { before: number; last: number } = { before: Number.NaN, last: Number.NaN }

  constructor(deps: DriftWatchDeps) {
    this.#deps = deps
  }

  /** A round of looks begins: at every queue that is of interest. */
  begin(): void {
    this.#rounds = { before: this.#rounds.last, last: this.#deps.now() }
  }

  /** True when the queue has jobs whose message may be missing. */
  isOfInterest(queue: string): boolean {
    return this.#deps.claimable(queue) > 0
  }

  forget(queue: string): void {
    this.#emptySince.delete(queue)
    this.#drifts.delete(queue)
    this.#alone.delete(queue)
  }

  /** Jobs of this queue that have been available since before this time have no message; null: none is known. */
  driftedBefore(queue: string): number | null {
    return this.#drifts.get(queue)?.before ?? null
  }

  warnings(): BrokerWarning[] {
    return [...this.#drifts]
      .filter(([, { count }]) => count > 0)
      .map(([queue, { count }]) => warningOf(queue, count))
  }

  /** Throws when the ledger cannot be read or written. */
  async note(queue: string, look: Look): Promise<void> {
    const { claimable, driftMs = AFTER_MS, now, unsettled } = this.#deps
    const at = now()
    this.#noteConsumers(queue, look, at)
    if (look.ready > 0 || unsettled(queue) > 0 || claimable(queue) === 0) {
      this.#emptySince.delete(queue)
      this.#drifts.delete(queue)
      return
    }
    const since = this.#emptySince.get(queue)
    if (since === undefined) this.#emptySince.set(queue, at)
    else if (at - since >= driftMs) await this.#found(queue, since, at)
  }

  #noteConsumers(queue: string, { consumers }: Look, at: number): void {
    const alone = this.#alone.get(queue)
    const isAlone = consumers <= this.#deps.consumers(queue)
    const wasAlone = alone === undefined ? this.#aloneBefore(at) : alone.since
    const isKnown = alone === undefined || at - alone.lookedAt <= MAX_GAP_MS
    const since = isAlone ? ((isKnown ? wasAlone : null) ?? at) : null
    this.#alone.set(queue, { since, lookedAt: at })
  }

  /**
   * Jobs of a queue that is looked at for the first time became available after the round before: since then it
   * is known as well as that of any queue between two looks.
   */
  #aloneBefore(at: number): number | null {
    const { before } = this.#rounds
    return at - before <= MAX_GAP_MS ? before : null
  }

  async #found(queue: string, before: number, at: number): Promise<void> {
    const { hooks, isPlain, logger } = this.#deps
    const aloneSince = this.#alone.get(queue)?.since ?? null
    const count = await hooks.jobs.onDrift({
      queue,
      before,
      aloneSince,
      isPlain: isPlain(queue),
    })
    if (count === null) return
    const isNews = count > 0 && count !== this.#drifts.get(queue)?.count
    this.#drifts.set(queue, { before, count })
    // The next minute begins: jobs that were stored in this one may have no message either.
    this.#emptySince.set(queue, at)
    if (!isNews) return
    const { code, details, message } = warningOf(queue, count)
    logger.warn({ ...details, code }, message)
  }
}

function warningOf(queue: string, count: number): BrokerWarning {
  return {
    code: 'jobs_without_message',
    message: `${count} available jobs of queue '${queue}' have no message in RabbitMQ, unless another consumer has held it for over a minute: a program acknowledged the messages without reporting the jobs, or the messages were purged or dropped. See 'ojs-rabbitmq recover --queue ${queue} --dry-run'.`,
    details: { queue, count },
  }
}
