/** A job's row as a ledger keeps it, and changes of it. */
import { FOLDED } from '../history/changes.ts'
import type { JobRow, JobStanding } from '../job.ts'

/** What a row has beside the members of `JobRow`. */
interface Kept {
  /** Set exactly while the row is terminal, `withdrawn` included. */
  endedAt: number | null
  /** The length that the last heartbeat to name one gave the lease; null: none has. */
  extendedMs: number | null
  /** Lines of `historyLine`. */
  history: string
  /** See `Unique`. */
  uniqueKey: string | null
  /** The `seq` of the cron entry that made the job. */
  cronEntry: number | null
  /** The key of the workflow's node whose job it is. */
  step: string | null
  /** See `Concurrency`. */
  concurrencyKey: string | null
  /** Its place in the order of arrival; null: it is not stored yet. */
  seq: number | null
}

/** A row without the texts that may be megabytes. */
export type KeptRow = JobStanding & Kept

/** The texts that may be megabytes. */
export type Texts = Pick<JobRow, 'carry' | 'error' | 'errors' | 'result' | 'envelope'>

/** The columns that a transition sets. */
export type Change = Partial<Omit<KeptRow, 'id'> & Texts>

/** From this size on, the oldest half is dropped at the next change: about a hundred changes are kept. */
const MAX_HISTORY_BYTES = 8_192

/** The history with `line` behind it. */
export function recorded({ history }: Pick<KeptRow, 'history'>, line: string): string {
  // No text has more bytes than three for each of its characters.
  const isShort = history.length * 3 < MAX_HISTORY_BYTES
  if (isShort || Buffer.byteLength(history) < MAX_HISTORY_BYTES) return history + line
  const kept = history.slice(-MAX_HISTORY_BYTES / 2)
  return FOLDED + kept.slice(kept.indexOf('\n')) + line
}

/** Columns that every end of a lease sets. */
export const NO_LEASE = { leaseMs: null, leaseExpiresAt: null, timeoutAt: null } as const
