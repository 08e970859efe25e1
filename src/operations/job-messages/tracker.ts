/** What this process knows about job messages: held deliveries, publishes under way, unsure ones. */
import type { Delivery } from '../../broker/broker.ts'
import type { JobRow } from '../../job/job.ts'

/**
 * What this process knows about job messages beyond the ledger; in memory only (docs/architecture.md, law 1).
 */
export class JobMessages {
  /** The deliveries behind the leases whose holder is `gateway`, by job id. */
  readonly held = new Map<string, Delivery>()
  /**
   * Ids whose job message this process is publishing, up to the confirm, or withdraws; the relay skips them.
   */
  readonly sending = new InHand()
  /** Ids whose row the relay is reading in order to publish its job message. */
  readonly reading = new BeingRead()
  /** Ids whose job message may be in RabbitMQ although it was never confirmed. */
  readonly unsure = new UnsureJobMessages()
  /**
   * Ids of batches whose confirms are not all in. Their deliveries are parked, so that a batch becomes
   * claimable in one step (docs/architecture.md §2). A crash forgets this: the rows are then claimable
   * singly.
   */
  readonly staging = new Set<string>()

  /** True while this process publishes the job's message, or its batch may still be withdrawn as a whole. */
  isInHand(id: string): boolean {
    return this.sending.has(id) || this.staging.has(id)
  }

  /** True when no unconfirmed job message of this process can be in RabbitMQ or on its way there. */
  isSurelyUnsent(id: string): boolean {
    return !this.isInHand(id) && !this.unsure.has(id)
  }
}

/** A multiset of job ids that are being worked on: an id stays in until each `add` has had its `delete`. */
class InHand {
  readonly #times = new Map<string, number>()

  /** Number of different ids. */
  get size(): number {
    return this.#times.size
  }

  add(id: string): void {
    this.#times.set(id, (this.#times.get(id) ?? 0) + 1)
  }

  /** Undoes one `add`. */
  delete(id: string): void {
    const times = this.#times.get(id) ?? 0
    if (times > 1) this.#times.set(id, times - 1)
    else this.#times.delete(id)
  }

  has(id: string): boolean {
    return this.#times.has(id)
  }

  [Symbol.iterator](): IterableIterator<string> {
    return this.#times.keys()
  }
}

/** Jobs whose rows are being read. A job may end meanwhile, and the read may not show it. */
class BeingRead {
  readonly #ended = new Map<string, JobRow | null>()

  begin(id: string): void {
    this.#ended.set(id, null)
  }

  /** A job has ended, whose message is owed and unsent. False: it is not being read. */
  noteEnded(job: JobRow): boolean {
    const isRead = this.#ended.has(job.id)
    if (isRead) this.#ended.set(job.id, job)
    return isRead
  }

  /** Returns the job if it has ended since `begin`. */
  end(id: string): JobRow | null {
    const ended = this.#ended.get(id) ?? null
    this.#ended.delete(id)
    return ended
  }
}

/** Well above the number of publishes that may be in flight and time out together (`publisher.ts`). */
const MAX_IDS = 50_000

/**
 * Ids of jobs that may have a job message in RabbitMQ although their next one is not confirmed: its publish
 * was not answered, or the last message may be back in its queue. Beyond `MAX_IDS` every job counts as
 * unsure.
 */
export class UnsureJobMessages {
  readonly #ids = new Set<string>()
  #isFull = false

  add(id: string): void {
    if (this.#ids.size < MAX_IDS) this.#ids.add(id)
    else if (!this.#ids.has(id)) this.#isFull = true
  }

  /**
   * To be called when the job message was confirmed (its row says so by now, or will soon), when it was
   * delivered, or when its job has ended or was withdrawn.
   */
  forget(id: string): void {
    this.#ids.delete(id)
  }

  has(id: string): boolean {
    return this.#isFull || this.#ids.has(id)
  }
}
