/** State that operations share while they are under way; in memory only. */
export class Transient {
  /** Queues that an operator has told the gateway to recover (`recover.ts`). */
  readonly recovering = new Set<string>()
  /** Queues that are being deleted: nothing is taken from them (`steer/delete-queue.ts`). */
  readonly deleting = new Set<string>()
  /** By queue: the newest change of its configuration, until it is done (`queues/configure.ts`). */
  readonly configuring = new Map<string, Promise<unknown>>()
  /** Queues that replaced others of the same name; their workers have to consume anew (`pause.ts`). */
  readonly renewed = new Set<string>()
  /** By queue: the newest pause or resume broadcast, until it is confirmed or has failed (`pause.ts`). */
  readonly newestWord = new Map<string, Promise<unknown>>()
  /** Unknown ids whose `cancel` is redelivered because no worker could be told (`native/cancel.ts`). */
  readonly untold = new Set<string>()
  /**
   * Unique jobs whose job messages are not confirmed, by id: they may yet be withdrawn. The promise settles,
   * and the entry goes, when that is decided (`enqueue/admission.ts`).
   */
  readonly unconfirmed = new Map<string, Promise<unknown>>()
  /** Ids of stored jobs, unique or not, that may yet be withdrawn (`enqueue/admission.ts`). */
  readonly undecided = new Undecided()
  /** By cron entry: why its newest time was skipped. Bounded by `noteStop` (`cron/stopped.ts`). */
  readonly cronStops = new Map<string, CronStop>()
  /** Requests with an `Idempotency-Key` that are not answered yet, by scope and key. */
  readonly keyed = new Map<string, Promise<unknown>>()
}

/** Why the newest time of a cron entry made no job; `seq`: of that entry, which another may have replaced since. */
export type CronStop = { seq: number } & (
  | { kind: 'blocked'; jobId: string; queue: string }
  | { kind: 'invalid'; at: number; fault: string }
)

/** Ids of jobs that a PUSH has stored and may yet withdraw, and the requests that wait for the decision. */
class Undecided {
  readonly #waiting = new Map<string, (() => void)[]>()

  /** Marks a stored job as undecided. Only one PUSH can have stored the id; others with it wait. */
  begin(id: string): void {
    this.#waiting.set(id, NOBODY)
  }

  /** Wakes the waiting requests: the job stays or was withdrawn. No effect for an id that is not listed. */
  end(id: string): void {
    const waiting = this.#waiting.get(id) ?? NOBODY
    this.#waiting.delete(id)
    for (const tell of waiting) tell()
  }

  has(id: string): boolean {
    return this.#waiting.has(id)
  }

  /** Resolves when the job stays or is withdrawn; at once for an id that is not listed. */
  decision(id: string): Promise<void> {
    const waiting = this.#waiting.get(id)
    if (waiting === undefined) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiting.set(id, [...waiting, resolve])
    })
  }
}

/** Shared by all ids that no request waits for, nearly all of them: no array is allocated for each. */
const NOBODY: (() => void)[] = []
