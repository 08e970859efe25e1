/** Prunes ended jobs and old idempotency keys in small batches. */
import type { Deps } from '../operations/deps.ts'
import { Loop } from './loop.ts'

const INTERVAL_MS = 5_000
/** Small, because other writes wait for a page. With `MAX_PAGES` every 5 s: 10,000 rows a second. */
const PAGE = 500
const MAX_PAGES = 100
/** Of no account beside `PruneHold`'s week. */
const NOTE_MS = 600_000
/** How long erased rows stay: without the row, a late message of the job would run as a new job. */
const WITHDRAWN_MS = 7 * 86_400_000

/** How long ended jobs stay readable, in milliseconds (docs/architecture.md §7, `OJS_RETENTION_*`). */
export interface Retention {
  completedMs: number
  cancelledMs: number
  discardedMs: number
  deadLettersMs: number
  /** Of each queue, the newest; 0: all. */
  maxDeadLetters: number
}

/** Deletes ended jobs whose retention time is over, and old idempotency keys, in small batches. */
export function retention(deps: Deps, kept: Retention): Loop {
  let seenAt = Number.NEGATIVE_INFINITY
  return new Loop({
    name: 'retention',
    everyMs: INTERVAL_MS,
    logger: deps.logger,
    runOnce: async (isStopped) => {
      // At every pass: a row that ended in the future may become prunable only when its job message is back.
      const ahead = await inPages(isStopped, () => deps.ledger.boundEnds(deps.clock.now(), PAGE))
      if (ahead > 0)
        deps.logger.warn(
          { rows: ahead },
          'clock was set back: the retention of these jobs begins now',
        )
      if (deps.pruneHold.isHeld) return false
      seenAt = await noteSeen(deps, seenAt)
      await inPages(isStopped, () => deps.ledger.pruneResults(deps.clock.now(), PAGE))
      const pruned = await inPages(isStopped, () => pruneOnce(deps, kept))
      const surplus = await pruneSurplus(deps, kept.maxDeadLetters, isStopped)
      if (pruned + surplus > 0) deps.logger.info({ jobs: pruned + surplus }, 'ended jobs pruned')
      await inPages(isStopped, () => deps.ledger.idempotency.prune(deps.clock.now(), PAGE))
      // What exceeds `MAX_PAGES` waits for the next pass.
      return false
    },
  })
}

/** Notes now and then that the ledger is in use; returns when it did last. */
async function noteSeen({ clock, ledger }: Deps, seenAt: number): Promise<number> {
  const now = clock.now()
  if (now - seenAt < NOTE_MS) return seenAt
  await ledger.epochs.noteSeen(now)
  return now
}

async function inPages(isStopped: () => boolean, prune: () => Promise<number>): Promise<number> {
  let pruned = 0
  for (let page = 0; page < MAX_PAGES && !isStopped(); page++) {
    const count = await prune()
    pruned += count
    // Not `count < PAGE`: a page with large rows is shorter.
    if (count === 0) break
  }
  return pruned
}

/** The oldest dead letters of every queue that has more than `max`. */
async function pruneSurplus(
  { clock, ledger }: Deps,
  max: number,
  isStopped: () => boolean,
): Promise<number> {
  if (max === 0) return 0
  let pruned = 0
  for (const { name } of ledger.known.queues()) {
    if (ledger.known.deadLetterCount(name) <= max) continue
    const prune = () => ledger.pruneDeadLetters(name, max, clock.now(), PAGE)
    pruned += await inPages(isStopped, prune)
  }
  return pruned
}

function pruneOnce(deps: Deps, kept: Retention): Promise<number> {
  const now = deps.clock.now()
  const cutoffs = {
    completed: now - kept.completedMs,
    cancelled: now - kept.cancelledMs,
    discarded: now - kept.discardedMs,
    deadLetters: now - kept.deadLettersMs,
    withdrawn: now - WITHDRAWN_MS,
  }
  return deps.ledger.prune(cutoffs, now, PAGE)
}
