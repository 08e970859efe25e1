/** Lists queues, and the statistics of one. */
import { queueRefusal } from '../../broker/broker-errors.ts'
import { isInScope, type QueueScope } from '../../job/queue-scope.ts'
import { type Histogram, mergeInto } from '../../job/values/histogram.ts'
import type { QueueRecord, StateCounts } from '../../ledger/known.ts'
import type { Traffic, TrafficPoint, TrafficQuery } from '../../ledger/queues.ts'
import type { JobSearch, OldestJobs } from '../../ledger/search.ts'
import type { Deps } from '../deps.ts'
import { type Drain, drainOf } from './drain.ts'
import { isPaused } from './pause.ts'

type QueueStatus = 'active' | 'paused'

/** A queue with what is kept of its jobs. */
export interface QueueSummary {
  name: string
  status: QueueStatus
  createdAt: number
  pausedAt: number | null
  counts: StateCounts
  /** Within the last whole minutes (`RECENT_MINUTES`). */
  recent: Traffic
  oldest: OldestJobs
  /** Null: it takes new jobs. */
  drain: Drain | null
  computedAt: number
}

export interface QueueList {
  queues: QueueSummary[]
  total: number
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** The minutes whose mean is the throughput of a queue. */
export const RECENT_MINUTES = 5

export interface QueueStats {
  status: QueueStatus
  counts: StateCounts
  /** Available jobs that their concurrency keys hold back. */
  held: number
  lastHour: Traffic
  oldest: OldestJobs
  computedAt: number
}

/**
 * Lists every queue that was used and is not forgotten, oldest first (seed 001 §11.1), of a `scope` only its
 * own. From memory but for the oldest jobs, which it finds by index.
 */
export async function listQueues(
  deps: Pick<Deps, 'ledger' | 'clock'>,
  page: { limit: number; offset: number },
  scope?: QueueScope,
): Promise<QueueList> {
  const known = deps.ledger.known.queues()
  const all = scope ? known.filter(({ name }) => isInScope(scope, name)) : known
  const shown = all.slice(page.offset, page.offset + page.limit)
  return { queues: await summariesOf(deps, shown), total: all.length }
}

/** One queue as `listQueues` lists it. Throws 404. */
export async function findQueue(
  deps: Pick<Deps, 'ledger' | 'clock'>,
  name: string,
): Promise<QueueSummary> {
  const known = deps.ledger.known.queues().filter((queue) => queue.name === name)
  const [summary] = await summariesOf(deps, known)
  if (summary === undefined) throw queueRefusal(name, 'missing')
  return summary
}

async function summariesOf(
  deps: Pick<Deps, 'ledger' | 'clock'>,
  queues: readonly QueueRecord[],
): Promise<QueueSummary[]> {
  const { ledger, clock } = deps
  const names = queues.map(({ name }) => name)
  const oldest = await ledger.read.search.oldest(names, clock.now(), clock.wall())
  const computedAt = clock.now()
  return queues.map(({ name, createdAt }) => ({
    name,
    createdAt,
    status: statusOf(deps, name),
    pausedAt: ledger.known.pauses.since(name),
    counts: ledger.known.counts(name),
    recent: ledger.known.traffic.wholeMinutes(name, computedAt, RECENT_MINUTES),
    oldest: oldest.get(name) ?? NONE_WAITS,
    drain: drainOf(deps, name),
    computedAt,
  }))
}

const NONE_WAITS: OldestJobs = { available: null, retryable: null, scheduled: null }

/** How many available jobs of a queue have which priority. Throws 404. */
export async function queuePriorities(
  deps: Pick<Deps, 'ledger'>,
  queue: string,
): ReturnType<JobSearch['priorities']> {
  if (!deps.ledger.known.hasQueue(queue)) throw queueRefusal(queue, 'missing')
  return await deps.ledger.read.search.priorities(queue)
}

/** Statistics of one queue (seed 001 §11.2), from stored counters: O(1) in the number of jobs. Throws 404. */
export async function queueStats(
  deps: Pick<Deps, 'ledger' | 'clock'>,
  queue: string,
): Promise<QueueStats> {
  if (!deps.ledger.known.hasQueue(queue)) throw queueRefusal(queue, 'missing')
  const oldest = await deps.ledger.read.search.oldest([queue], deps.clock.now(), deps.clock.wall())
  const computedAt = deps.clock.now()
  return {
    status: statusOf(deps, queue),
    counts: deps.ledger.known.counts(queue),
    held: deps.ledger.known.held(queue),
    lastHour: deps.ledger.known.traffic.lastHour(queue, computedAt),
    oldest: oldest.get(queue) ?? NONE_WAITS,
    computedAt,
  }
}

function statusOf(deps: Pick<Deps, 'ledger'>, queue: string): QueueStatus {
  return isPaused(deps, queue) ? 'paused' : 'active'
}

/** How long jobs of the queue waited within the last hour, the minute that goes on included. */
export async function recentWaits(
  { ledger, clock }: Pick<Deps, 'ledger' | 'clock'>,
  queue: string,
): Promise<Histogram> {
  const to = clock.now()
  const query = { queue, span: 'minute', from: to - HOUR_MS, to } as const
  const all: Histogram = new Map()
  for (const { waits } of await ledger.read.traffic.history(query)) mergeInto(all, waits)
  return all
}

/** What happened in a queue, or in all (null), over time; nothing for an unknown queue. */
export function trafficHistory(
  { ledger }: Pick<Deps, 'ledger'>,
  query: TrafficQuery,
): Promise<TrafficPoint[]> {
  return ledger.read.traffic.history(query)
}

export type Today = Pick<Traffic, 'completed' | 'failed'>

/** Jobs that ended well, and attempts that failed, since midnight, UTC. */
export async function trafficToday(
  { ledger, clock }: Pick<Deps, 'ledger' | 'clock'>,
  queue: string,
): Promise<Today> {
  const now = clock.now()
  const query = { queue, span: 'hour', from: now - (now % DAY_MS), to: now } as const
  const hours = await ledger.read.traffic.history(query)
  return {
    completed: hours.reduce((sum, { completed }) => sum + completed, 0),
    failed: hours.reduce((sum, { failed }) => sum + failed, 0),
  }
}
