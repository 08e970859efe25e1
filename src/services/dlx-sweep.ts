/** Removes copies from dead letter queues whose jobs were retried, deleted or never listed. */
import type { DeadLetterCopy, SweptDeadLetters } from '../broker/broker.ts'
import { isTerminal } from '../job/job.ts'
import type { Deps } from '../operations/deps.ts'
import { Loop } from './loop.ts'

const INTERVAL_MS = 5_000
/**
 * The largest prefetch that AMQP allows. A sweep with a smaller limit than the last one would change the
 * order of the queue: see `broker/consume/dead-letter-sweep.ts`.
 */
const MAX_COPIES = 65_535

/**
 * Removes stale copies from `ojs.queue.dlx.{q}`: those of dead letters that were retried or deleted, of jobs
 * that were discarded without being listed, and of pruned rows. Reads only queues that are known to have
 * stale copies. Messages whose id the ledger does not know stay, for an operator to decide.
 */
export function dlxSweep(deps: Deps): Loop {
  const pace = new SweepPace()
  return new Loop({
    name: 'dlx sweep',
    everyMs: INTERVAL_MS,
    logger: deps.logger,
    runOnce: async (isStopped) => {
      for (const [queue, mark] of deps.ledger.known.staleCopies()) {
        if (isStopped() || deps.broker.status().state !== 'up') break
        const now = deps.clock.now()
        if (!pace.isDue(queue, now)) continue
        pace.began(queue, now)
        const swept = await sweepQueue(deps, queue, mark)
        const isInVain = swept !== null && !swept.isDecided && swept.removed === 0
        // Only this case is worth a warning: a broker under load, or another consumer that holds copies, also
        // keeps a sweep from reaching the end.
        const isTooMany = swept !== null && swept.kept >= MAX_COPIES
        if (pace.ended(queue, { isInVain }) && isTooMany) {
          deps.logger.warn({ queue, ...swept }, 'more dead letter copies than a sweep can read')
        }
      }
      return false
    },
  })
}

/** `isDecided`: every copy was judged for good. One that becomes stale later marks the queue again. */
type Swept = SweptDeadLetters & { isDecided: boolean }

/**
 * Sweeps one queue. `mark` was read before the sweep, so a copy that becomes stale during it counts for the
 * next sweep. After a crash in between, the next process just sweeps again.
 */
async function sweepQueue(deps: Deps, queue: string, mark: number): Promise<Swept | null> {
  let isAnyOpen = false
  const swept = await deps.broker.sweepDeadLetters(queue, MAX_COPIES, async (copy) => {
    // The ledger cannot be read: the next sweep judges the copy.
    const fate = await fateOf(deps, copy).catch(() => 'open')
    if (fate === 'open') isAnyOpen = true
    return fate === 'stale'
  })
  if (swept === null) return null
  const isDecided = swept.isComplete && !isAnyOpen
  if (isDecided) await deps.ledger.swept(queue, mark)
  deps.logger.info({ queue, ...swept }, 'dead letter copies swept')
  return { ...swept, isDecided }
}

/**
 * Judges one copy. `stale`: it is of an earlier generation, or of a job that has ended and is not listed as a
 * dead letter. That includes deleted and pruned jobs (`isErased`), and a cancelled job whose job message a
 * native worker rejected. `open`: the job has not ended. Its copy may have come before the report of its end,
 * or the job runs without that message (`noteCopyOf`), so a later sweep judges it again.
 */
async function fateOf(
  deps: Deps,
  { id, generation }: DeadLetterCopy,
): Promise<'stale' | 'open' | 'kept'> {
  const row = await deps.ledger.read.standing(id)
  if (row === null) return 'kept'
  if (row.generation > generation) return 'stale'
  if (!isTerminal(row.state)) return 'open'
  return row.isDeadLetter ? 'kept' : 'stale'
}

const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS

interface Last {
  at: number
  gapMs: number
}

/**
 * Decides when a DLX queue is swept again: a minute after the last sweep, because each one reads the whole
 * queue. The interval doubles, up to a day, after each sweep in vain: one that removed nothing and either
 * could not reach the end of the queue or met the copy of a job that is not over. The next sweep would find
 * the same.
 */
export class SweepPace {
  readonly #last = new Map<string, Last>()

  /** `now`: clock time, ms. */
  isDue(queue: string, now: number): boolean {
    const last = this.#last.get(queue)
    return last === undefined || now - last.at >= last.gapMs
  }

  began(queue: string, now: number): void {
    this.#last.set(queue, { at: now, gapMs: this.#last.get(queue)?.gapMs ?? MINUTE_MS })
  }

  /** Notes the end of a sweep. Returns true for the first one of a series in vain. */
  ended(queue: string, { isInVain }: { isInVain: boolean }): boolean {
    const last = this.#last.get(queue)
    if (last === undefined) return false
    const isNews = isInVain && last.gapMs === MINUTE_MS
    last.gapMs = isInVain ? Math.min(2 * last.gapMs, DAY_MS) : MINUTE_MS
    return isNews
  }
}
