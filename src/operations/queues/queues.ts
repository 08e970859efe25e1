/** Lists queues, and the statistics of one. */
import { queueRefusal } from '../../broker/broker-errors.ts'
import { isInScope, type QueueScope } from '../../job/queue-scope.ts'
import type { StateCounts } from '../../ledger/ledger.ts'
import type { Traffic, TrafficPoint, TrafficQuery } from '../../ledger/queues.ts'
import type { Deps } from '../deps.ts'
import { isPaused } from './pause.ts'

type QueueStatus = 'active' | 'paused'

export interface QueueList {
  queues: { name: string; status: QueueStatus; createdAt: number }[]
  total: number
}

export interface QueueStats {
  status: QueueStatus
  counts: StateCounts
  lastHour: Traffic
  computedAt: number
}

/**
 * Lists every queue that was used and is not forgotten, oldest first (seed 001 §11.1), of a `scope` only its
 * own. Reads from memory only.
 */
export function listQueues(
  deps: Pick<Deps, 'ledger'>,
  page: { limit: number; offset: number },
  scope?: QueueScope,
): QueueList {
  const known = deps.ledger.queues()
  const all = scope ? known.filter(({ name }) => isInScope(scope, name)) : known
  const queues = all
    .slice(page.offset, page.offset + page.limit)
    .map(({ name, createdAt }) => ({ name, status: statusOf(deps, name), createdAt }))
  return { queues, total: all.length }
}

/** Statistics of one queue (seed 001 §11.2), from stored counters: O(1) in the number of jobs. Throws 404. */
export function queueStats(deps: Pick<Deps, 'ledger' | 'clock'>, queue: string): QueueStats {
  if (!deps.ledger.hasQueue(queue)) throw queueRefusal(queue, 'missing')
  const computedAt = deps.clock.now()
  return {
    status: statusOf(deps, queue),
    counts: deps.ledger.counts(queue),
    lastHour: deps.ledger.traffic.lastHour(queue, computedAt),
    computedAt,
  }
}

function statusOf(deps: Pick<Deps, 'ledger'>, queue: string): QueueStatus {
  return isPaused(deps, queue) ? 'paused' : 'active'
}

/** What happened in a queue, or in all (null), over time; nothing for an unknown queue. */
export function trafficHistory(
  { ledger }: Pick<Deps, 'ledger'>,
  query: TrafficQuery,
): Promise<TrafficPoint[]> {
  return ledger.traffic.history(query)
}
