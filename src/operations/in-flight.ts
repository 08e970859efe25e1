import { Undecided } from './undecided.ts'

/** State that operations share while they are under way; in memory only. */
export class Transient {
  /** Queues that an operator has told the gateway to recover (`recover.ts`). */
  readonly recovering = new Set<string>()
  /** Queues that replaced others of the same name; their workers have to consume anew (`pause.ts`). */
  readonly renewed = new Set<string>()
  /** By queue: the newest pause or resume broadcast, until it is confirmed or has failed (`pause.ts`). */
  readonly newestWord = new Map<string, Promise<unknown>>()
  /** Unknown ids whose `cancel` is redelivered because no worker could be told (`native/cancel.ts`). */
  readonly untold = new Set<string>()
  /**
   * Unique jobs whose tokens are not confirmed, by id: they may yet be withdrawn. The promise settles,
   * and the entry goes, when that is decided (`enqueue/admission.ts`).
   */
  readonly unconfirmed = new Map<string, Promise<unknown>>()
  /** Ids of stored jobs, unique or not, that may yet be withdrawn (`enqueue/admission.ts`). */
  readonly undecided = new Undecided()
  /** By cron entry: the job because of which its newest time was skipped. Bounded by `noteBlocked`. */
  readonly cronBlockedBy = new Map<string, { jobId: string; queue: string }>()
  /** Requests with an `Idempotency-Key` that are not answered yet, by scope and key. */
  readonly keyed = new Map<string, Promise<unknown>>()
}
