import type { JobRow, NewJob } from '../job/job.ts'
import type { KeyedRequest, Remembered } from './idempotency.ts'
import type { Cancelled } from './ledger.ts'

/** What becomes of a job that is given to the ledger. */
export type Inserted =
  | Enqueued
  /** Nothing was stored: the policy is content with this one. */
  | { outcome: 'existing'; job: JobRow }
  /** This one is in the way of the job's `unique` policy. */
  | { outcome: 'conflict'; existing: JobRow }
  | Unsettled
  | AnsweredBefore

/** Of a job that is stored as it is. `duplicate`: the id is taken. */
export type Enqueued = ({ outcome: 'inserted' } & Stored) | { outcome: 'duplicate' }

/** It is there, or one that is as good. */
export type Admitted = Extract<Inserted, { outcome: 'inserted' | 'existing' }>

/** `outbox` is null for a job that needs no token yet. */
export interface Stored {
  generation: number
  outbox: number | null
  enqueuedAt: number
  replacing?: Replacing
}

/** What the new job took the place of; each was cancelled as `cancel` does it. */
interface Replacing {
  cancelled: Cancelled[]
  /** The new job as it was stored: perhaps at the time of the one that it replaced. */
  job: NewJob
}

export type InsertedAll =
  | { outcome: 'inserted'; stored: Admitted[] }
  | { outcome: 'duplicate'; index: number }
  /** `existing` may be an earlier job of the same batch, and then is not there any more. */
  | { outcome: 'conflict'; index: number; existing: JobRow }
  | Unsettled
  | AnsweredBefore

export interface EnqueueTerms {
  /** The request that it is for, where it has a key of its own. */
  request?: KeyedRequest | undefined
  /** Asked inside the write about a job that is in the way: may it still be withdrawn? */
  isUnsettled?: ((id: string) => boolean) | undefined
  /** For one job: as soon as so many writes wait, commit them without waiting for the turn to end. */
  enough?: number
}

/** Nothing was done: it is for the caller to wait until that job stays or goes. */
export interface Unsettled {
  outcome: 'unsettled'
  id: string
}

interface AnsweredBefore {
  outcome: 'remembered'
  remembered: Remembered
}
