/** How an insert ended: stored, a duplicate, or an existing job in its place. */
import type { Cause } from '../job/history/changes.ts'
import type { JobRow, NewJob } from '../job/job.ts'
import type { Cancelled } from './ended.ts'
import type { AnsweredBefore, KeyedRequest } from './idempotency.ts'

/** The outcome of `insert`. */
export type Inserted =
  | Enqueued
  /** Nothing was stored: the `unique` policy is `ignore`, and this job has the key. */
  | { outcome: 'existing'; job: JobRow }
  /**
   * Nothing was stored: `existing` has the same unique key, and the new job may not replace it, or is to be
   * ignored and there is no job any more that could be answered in its place.
   */
  | { outcome: 'conflict'; existing: KeyHolder }
  | Unsettled
  | AnsweredBefore

/** The job that has a unique key. `isGone`: retention has deleted the job, but the key's period goes on. */
export interface KeyHolder extends Pick<JobRow, 'id' | 'state'> {
  isGone?: boolean
}

/** The outcome of an insert that looks at no `unique` policy. `duplicate`: the id is taken. */
export type Enqueued = ({ outcome: 'inserted' } & Stored) | { outcome: 'duplicate' }

/** The job was stored, or an existing job serves in its place. */
export type Admitted = Extract<Inserted, { outcome: 'inserted' | 'existing' }>

/** `outbox` is null for a job that needs no job message yet. */
export interface Stored {
  generation: number
  outbox: number | null
  /** It is held back by its concurrency key, so it needs no job message yet. */
  isHeld?: boolean
  enqueuedAt: number
  replacing?: Replacing
}

/** The jobs that the new job replaced; each was cancelled as `cancel` does it. */
interface Replacing {
  cancelled: Cancelled[]
  /** The new job as it was stored: `replace_except_schedule` gives it the time of the replaced job. */
  job: NewJob
}

export type InsertedAll =
  | { outcome: 'inserted'; stored: Admitted[] }
  | { outcome: 'duplicate'; index: number }
  /** `existing` may be an earlier job of the same batch, which then was not stored either. */
  | { outcome: 'conflict'; index: number; existing: KeyHolder }
  | Unsettled
  | AnsweredBefore

export interface EnqueueTerms {
  /** The request that asks for the insert, if it has an `Idempotency-Key`. */
  request?: KeyedRequest | undefined
  /** Called inside the write for a job with the same unique key: may that job still be withdrawn? Pure. */
  isUnsettled?: ((id: string) => boolean) | undefined
  /** For `insert` only: when this many writes wait, commit them without waiting for the turn to end. */
  enough?: number
  /** For `insert` only: the dead letter that the new job replaces: its `Carry.retriedAs` is set. */
  retryOf?: string | undefined
  /** For the history of the job. */
  cause?: Cause | undefined
}

/**
 * Nothing was stored, because the job `id` has the same unique key and may still be withdrawn. The caller
 * waits until that job is confirmed or withdrawn, and tries again.
 */
export interface Unsettled {
  outcome: 'unsettled'
  id: string
}
