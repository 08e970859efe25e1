import type { DeadLetterCopy } from '../broker/broker.ts'
import type { Deps } from '../operations/deps.ts'
import { Loop } from './loop.ts'

const INTERVAL_MS = 5_000
/** A sweep reads the whole queue: at most once a minute each. */
const MIN_GAP_MS = 60_000
/** What one consumer may hold. Never less than before: the order of a longer queue depends on it. */
const MAX_COPIES = 65_535

/**
 * Takes copies that nobody needs out of `ojs.queue.dlx.{q}`: of dead letters that were retried or
 * deleted, of plain discards, of pruned records. Only where such copies are known; what the ledger
 * does not know at all is an operator's business and stays.
 */
export function dlxSweep(deps: Deps): Loop {
  const sweptAt = new Map<string, number>()
  return new Loop({
    name: 'dlx sweep',
    everyMs: INTERVAL_MS,
    logger: deps.logger,
    runOnce: async (isStopped) => {
      for (const [queue, mark] of deps.ledger.staleCopies()) {
        if (isStopped() || deps.broker.status().state !== 'up') break
        const now = deps.clock.now()
        if (now - (sweptAt.get(queue) ?? -Infinity) < MIN_GAP_MS) continue
        sweptAt.set(queue, now)
        await sweepQueue(deps, queue, mark)
      }
      return false
    },
  })
}

/**
 * `mark` is from before the look: what becomes stale during it counts for the next one. A crash in
 * between only makes the next process look again.
 */
async function sweepQueue(deps: Deps, queue: string, mark: number): Promise<void> {
  const swept = await deps.broker.sweepDeadLetters(queue, MAX_COPIES, (copy) => isStale(deps, copy))
  if (swept === null) return
  if (swept.isComplete) await deps.ledger.swept(queue, mark)
  deps.logger.info({ queue, ...swept }, 'dead letter copies swept')
}

/**
 * A row that is still at this attempt stays: its copy may have come before the news of it. The id
 * of a deleted or pruned job is remembered as `withdrawn`.
 */
function isStale(deps: Deps, { id, generation }: DeadLetterCopy): boolean {
  const row = deps.ledger.find(id)
  if (row === null) return false
  if (row.generation > generation || row.state === 'withdrawn') return true
  return row.state === 'discarded' && !row.isDeadLetter
}
