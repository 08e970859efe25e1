/** What this gateway knows of the ledger: as committed, kept up to date by its own groups. */
import { JOB_STATES, type JobState } from '../../../job/job.ts'
import type { WorkflowState } from '../../../job/workflow/workflow.ts'
import type { KeyNews } from '../../concurrency.ts'
import type { QueueRecord, RetryQueue } from '../../known.ts'
import type { Maintenance } from '../../maintenance.ts'
import type { QueueSettings } from '../../queue-settings.ts'
import { RecentTraffic } from '../../writes/traffic.ts'

/**
 * What is counted: the states, and three subsets. `dead_letter`: the `discarded` jobs that are listed as dead
 * letters. `with_native`: see `isWaitingWithNative`. `held`: see `isHeldByKey`.
 */
export type Counted = JobState | 'dead_letter' | 'with_native' | 'held'

export type Counts = Record<Counted, number>

const COUNTED: readonly Counted[] = [...JOB_STATES, 'dead_letter', 'with_native', 'held']

/** A cancelled id that the ledger knew no job of, or a job that has left a message behind. */
export interface Tombstone {
  queue: string
  /** Only messages of `queue` are dropped. */
  isScoped: boolean
  cancelledAt: number
}

/** A message that was owed to `retryQueue`, and is owed to the job queue (`outbox`) since the job came due. */
export interface MovedDebt {
  retryQueue: RetryQueue
  outbox: number
}

export interface PauseState {
  pausedAt: number | null
  /** The workers of the queue are to be told. */
  isOwed: boolean
}

export function noCounts(): Counts {
  return Object.fromEntries(COUNTED.map((state) => [state, 0])) as Counts
}

/** Changed after commits only, but for `confirming` and `lastMark`. */
export class Memory {
  readonly counts = new Map<string, Counts>()
  readonly queues = new Map<string, QueueRecord>()
  /** By `retryQueueKey`. */
  readonly retryQueues = new Map<string, RetryQueue>()
  /** Queues with stale copies; the mark grows with each. */
  readonly stale = new Map<string, number>()
  readonly lost = new Set<string>()
  readonly unwritten = new Set<string>()
  /** Queues that are paused, or whose workers are to be told that they are not. */
  readonly pauses = new Map<string, PauseState>()
  readonly queueSettings = new Map<string, QueueSettings>()
  /** Since when each idle queue has been idle, as far as was noticed. */
  readonly idleSince = new Map<string, number>()
  /** One value while it lasts. */
  readonly maintenance = new Map<'now', Maintenance>()
  /** Registrations of schemas, by uri. */
  readonly schemas = new Map<string, number>()
  /** The last ones that were given out without gaps. */
  readonly numbers = new Map<'audit', number>()
  readonly traffic = new RecentTraffic()
  /** How many rows of traffic there are, by their span. */
  readonly trafficRows = new Map<number, number>()
  /** Nonces that RabbitMQ has confirmed, until the commit that clears them from their rows. */
  readonly confirming = new Set<number>()
  /** By the nonce of the old debt. */
  readonly moved = new Map<number, MovedDebt>()
  readonly wall: () => number
  /** The nonces of this process are above it. */
  readonly firstNonce: number
  /** The last nonce of a committed group. */
  nonce: number
  /** How many there are; mostly 0, and then nobody looks for one. */
  tombstones = 0
  /** Unique keys of deleted jobs. Mostly 0, and then nobody looks for one. */
  keptKeys = 0
  lastMark = 0
  /** The listener of concurrency keys. */
  tellKeys: (news: KeyNews) => void = () => {}
  readonly #workflows = new Map<WorkflowState, number>()
  /** Names of the side tables that may have rows: nobody looks into another. */
  readonly usedSides = new Set<string>()

  /** `wall`: clock time, ms. */
  constructor(firstNonce: number, wall: () => number) {
    this.wall = wall
    this.firstNonce = firstNonce
    this.nonce = firstNonce
  }

  add(queue: string, state: Counted, change: number): void {
    const counts = this.counts.get(queue) ?? noCounts()
    this.counts.set(queue, counts)
    counts[state] += change
  }

  /** How many workflows there are in a state; null: in all. */
  workflows(state: WorkflowState | null): number {
    if (state !== null) return this.#workflows.get(state) ?? 0
    return [...this.#workflows.values()].reduce((sum, count) => sum + count, 0)
  }

  addWorkflows(state: WorkflowState, change: number): void {
    this.#workflows.set(state, this.workflows(state) + change)
  }

  /** False: an earlier process gave this nonce out, and may have published its message. */
  isOurs(nonce: number): boolean {
    return nonce > this.firstNonce
  }
}
