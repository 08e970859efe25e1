import type { DeadLetterCopy, SweptDeadLetters } from '../broker/broker.ts'
import { isTerminal } from '../job/job.ts'
import type { Deps } from '../operations/deps.ts'
import { Loop } from './loop.ts'
import { SweepPace } from './sweep-pace.ts'

const INTERVAL_MS = 5_000
/** The most that one consumer may hold. A smaller limit than last time would break the order. */
const MAX_COPIES = 65_535

/**
 * Takes copies that nobody needs out of `ojs.queue.dlx.{q}`: of dead letters that were retried or
 * deleted, of plain discards, of pruned records. Only where such copies are known; what the ledger
 * does not know at all is an operator's business and stays.
 */
export function dlxSweep(deps: Deps): Loop {
  const pace = new SweepPace()
  return new Loop({
    name: 'dlx sweep',
    everyMs: INTERVAL_MS,
    logger: deps.logger,
    runOnce: async (isStopped) => {
      for (const [queue, mark] of deps.ledger.staleCopies()) {
        if (isStopped() || deps.broker.status().state !== 'up') break
        const now = deps.clock.now()
        if (!pace.isDue(queue, now)) continue
        pace.began(queue, now)
        const swept = await sweepQueue(deps, queue, mark)
        const isInVain = swept !== null && !swept.isDecided && swept.removed === 0
        // A broker under load, or somebody who holds copies, keeps a sweep from its end, too.
        const isTooMany = swept !== null && swept.kept >= MAX_COPIES
        if (pace.ended(queue, { isInVain }) && isTooMany) {
          deps.logger.warn({ queue, ...swept }, 'more dead letter copies than a sweep can read')
        }
      }
      return false
    },
  })
}

/** `isDecided`: there is nothing in the queue that may become stale without being marked again. */
type Swept = SweptDeadLetters & { isDecided: boolean }

/**
 * `mark` is from before the look: what becomes stale during it counts for the next one. A crash in
 * between only makes the next process look again.
 */
async function sweepQueue(deps: Deps, queue: string, mark: number): Promise<Swept | null> {
  let isAnyOpen = false
  const swept = await deps.broker.sweepDeadLetters(queue, MAX_COPIES, (copy) => {
    const fate = fateOf(deps, copy)
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
 * Stale: of an earlier life, or of a job that is over and not listed: a native worker may reject the
 * token of one that was cancelled meanwhile. Those of deleted and pruned jobs are among them
 * (`isErased`). Open: of a job that is under way. Its copy may have come before the news of it, or it
 * runs without that token (`noteCopyOf`): it is looked at again.
 */
function fateOf(deps: Deps, { id, generation }: DeadLetterCopy): 'stale' | 'open' | 'kept' {
  const row = deps.ledger.standing(id)
  if (row === null) return 'kept'
  if (row.generation > generation) return 'stale'
  if (!isTerminal(row.state)) return 'open'
  return row.isDeadLetter ? 'kept' : 'stale'
}
