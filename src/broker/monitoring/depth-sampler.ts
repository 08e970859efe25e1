/** Compares a queue's messages with its rows: are many jobs without a message? */
import type { Logger } from '../../logger.ts'
import type { BrokerWarning } from '../broker.ts'
import type { ScratchChannel } from '../connection/temporary-channel.ts'
import type { Names } from '../names.ts'
import { lookFor } from '../topology/entity.ts'
import type { DriftWatch } from './drift-watch.ts'

const MAX_AGE_MS = 15_000
/** Fewer missing job messages are explained by publishes in flight and by deliveries to native workers. */
const MIN_MISSING = 100
const MISSING_SHARE = 0.1
/** Most queues without jobs that a look asks about: only who consumes them matters (`drift-watch.ts`). */
const MAX_IDLE = 100

export interface DepthSamplerDeps {
  names: Names
  now(): number
  queues(): Iterable<string>
  /** Jobs that are `available` in the ledger. */
  available(queue: string): number | Promise<number>
  /** Unsettled deliveries of this queue in this process. */
  held(queue: string): number
  /** True when the queue is the one that received its job messages. Asked only when many are missing. */
  isSame(scratch: ScratchChannel, queue: string): Promise<boolean>
  /** Gets the looks too. */
  drift: Pick<DriftWatch, 'begin' | 'isOfInterest' | 'note'>
  logger: Pick<Logger, 'warn'>
}

/**
 * Compares a queue's job messages with its rows (docs/architecture.md §2, "Queue missing"). Far fewer
 * messages than available jobs means that a native consumer acknowledges without reporting. If such a queue
 * is lost, its jobs must not simply be published again.
 */
export class DepthSampler {
  readonly #deps: DepthSamplerDeps
  readonly #missing = new Map<string, { count: number; at: number }>()
  /**
   * Queues that did not exist: not looked for again before they have jobs. Each look would cost a channel.
   */
  readonly #absent = new Set<string>()

  constructor(deps: DepthSamplerDeps) {
    this.#deps = deps
  }

  /** The queue is missing, and may be declared next. Its last sample stays: this is when it is needed. */
  noteMissing(queue: string): void {
    this.#absent.delete(queue)
  }

  /** Jobs without a job message, according to a recent enough sample; else 0. */
  missing(queue: string): number {
    const sample = this.#missing.get(queue)
    return sample && this.#deps.now() - sample.at <= MAX_AGE_MS ? sample.count : 0
  }

  /** Queues whose recent sample lacks job messages. */
  suspects(): { queue: string; missing: number }[] {
    return [...this.#missing.keys()]
      .map((queue) => ({ queue, missing: this.missing(queue) }))
      .filter(({ missing }) => missing > 0)
  }

  warnings(): BrokerWarning[] {
    return this.suspects().map(({ queue, missing }) => warningOf(queue, missing))
  }

  /** Samples every queue that has jobs, and some others. Throws when the ledger cannot be read. */
  async look(scratch: ScratchChannel): Promise<void> {
    const { drift, queues } = this.#deps
    drift.begin()
    let idle = 0
    // A copy: queues come and go meanwhile.
    for (const queue of [...queues()]) {
      const isIdle = !drift.isOfInterest(queue)
      if (!isIdle) this.#absent.delete(queue)
      const isLookedAt = !isIdle || (idle < MAX_IDLE && !this.#absent.has(queue))
      if (isIdle && isLookedAt) idle += 1
      await this.#sample(scratch, queue, isLookedAt)
    }
  }

  async #sample(scratch: ScratchChannel, queue: string, isLookedAt: boolean): Promise<void> {
    const { available, drift, held, isSame, names, now } = this.#deps
    const before = await available(queue)
    const isMuch = before > MIN_MISSING
    if (!isMuch) this.#missing.delete(queue)
    if (!isMuch && !isLookedAt) return
    const look = await lookFor(scratch, { entity: 'queue', name: names.jobQueue(queue) })
    const { presence, ready } = look
    // A lost queue keeps its last sample: this is when the sample is needed.
    if (presence !== 'exists') {
      if (presence === 'missing') this.#absent.add(queue)
      return
    }
    await drift.note(queue, look)
    if (!isMuch) return
    // A job that came or went during the request must not look like a missing job message.
    const rows = Math.min(before, await available(queue))
    const count = rows - ready - held(queue)
    const isMany = count > Math.max(MIN_MISSING, rows * MISSING_SHARE)
    if (!isMany) this.#missing.delete(queue)
    else if (await isSame(scratch, queue)) this.#note(queue, count, now())
  }

  #note(queue: string, count: number, at: number): void {
    const isNews = !this.#missing.has(queue)
    this.#missing.set(queue, { count, at })
    if (!isNews) return
    const { code, details, message } = warningOf(queue, count)
    this.#deps.logger.warn({ ...details, code }, message)
  }
}

function warningOf(queue: string, missing: number): BrokerWarning {
  return {
    code: 'silent_acks',
    message: `About ${missing} available jobs of queue '${queue}' have no message in RabbitMQ: a program acknowledged the messages without reporting the jobs, or the queue was purged.`,
    details: { queue, missing },
  }
}
