/** The part of the ledger's contract for concurrency keys. */
import type { JobRow } from '../job/job.ts'

/**
 * Jobs with a concurrency key (`Carry.concurrency`). A job that becomes available is held back (`isHeldByKey`) if
 * its queue has as many messages of the key as jobs of it may start (never more than a few hundred); a claim holds it back if as many jobs of the
 * key are active as its own limit allows. In the commit in which a job of the key ends or stops waiting, the
 * first in each queue's line (by priority, then by when they became available) owe their messages again. So
 * no line waits while the key has room, and a queue that nobody consumes from stops no other.
 */
export interface ConcurrencyLedger {
  /** Whom to tell after each commit that has held jobs back or let them go. One listener. */
  onNews(listener: (news: KeyNews) => void): void

  /**
   * Looks at the lines of the keys behind `after`, and lets go whom nothing else has let go. At most `limit`
   * keys; resolves with the last of them, null after the last key. Lines are kept up to date by every
   * write: this is for what no write could see, and for lines with very many queues.
   */
  review(after: string, limit: number): Promise<string | null>
}

/** How a key stands. */
export interface KeyStanding {
  /**
   * Of the first job that is held back, else of another that is available, else of one that is active, if it is
   * among the 1,000 whose leases end first; else null.
   */
  limit: number | null
  active: number
  /** Available jobs that are held back, counted up to `MAX_WAITING_COUNTED`. */
  waiting: number
}

export const MAX_WAITING_COUNTED = 1_000
/** Active jobs among which the limit of a key is looked for. */
export const MAX_LEASES_ASKED = 1_000

export interface KeyNews {
  /** Queues of jobs that a commit has held back, one for each job. */
  held: readonly string[]
  /** Rows that owe their messages now, besides those that the write itself returns. */
  released: readonly JobRow[]
}
