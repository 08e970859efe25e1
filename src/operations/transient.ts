import { Undecided } from './enqueue/undecided.ts'

/** What requests and looks that are under way leave to each other; nothing of it outlives the process. */
export class Transient {
  /** Queues that an operator has told us to recover (`recover.ts`). */
  readonly recovering = new Set<string>()
  /** Queues in the place of others of their names, whose workers have to consume anew (`pause.ts`). */
  readonly renewed = new Set<string>()
  /** What the workers of a queue were told last of its pause, until that is answered (`pause.ts`). */
  readonly newestWord = new Map<string, Promise<unknown>>()
  /** Unknown ids whose `cancel` comes again because no worker could be told (`native/cancel.ts`). */
  readonly untold = new Set<string>()
  /**
   * Unique jobs whose confirm is not in, by id: they may yet be withdrawn. Each settles, and is
   * gone, when that is decided (`enqueue/admission.ts`).
   */
  readonly unconfirmed = new Map<string, Promise<unknown>>()
  /** Ids of jobs that are stored and may yet be withdrawn, unique or not (`enqueue/admission.ts`). */
  readonly undecided = new Undecided()
  /** Requests with an `Idempotency-Key` that are not answered yet, by scope and key. */
  readonly keyed = new Map<string, Promise<unknown>>()
}
