/** What happens right now, for a dashboard that asks every second. */
import { timestamp } from '../../job/document.ts'
import type { Deps } from '../deps.ts'

/** The queues and workers that one look names. */
const MAX_LISTED = 200

type Totals = Record<'enqueued' | 'completed' | 'failed', number>

/** Returns a function that looks, and compares with its look before. From memory only. */
export function liveStats({ ledger, workers, clock }: Pick<Deps, 'ledger' | 'workers' | 'clock'>) {
  let before: { at: number; totals: Totals } | null = null
  return (): object => {
    const at = clock.now()
    const queues = ledger.known
      .queues()
      .slice(0, MAX_LISTED)
      .map(({ name }) => name)
    const totals: Totals = { enqueued: 0, completed: 0, failed: 0 }
    for (const queue of queues) {
      const { enqueued, completed, failed } = ledger.known.traffic.lastHour(queue, at)
      totals.enqueued += enqueued
      totals.completed += completed
      totals.failed += failed
    }
    const seconds = before === null ? 0 : (at - before.at) / 1_000
    // A minute that leaves the hour makes the total smaller.
    const rate = (name: keyof Totals) =>
      seconds <= 0 ? 0 : Math.max(0, totals[name] - (before?.totals[name] ?? 0)) / seconds
    const [enqueued, completed, failed] = [rate('enqueued'), rate('completed'), rate('failed')]
    before = { at, totals }
    return {
      timestamp: timestamp(at),
      queues: queues.map((queue) => countsOf(ledger, queue)),
      throughput: {
        processed_per_second: rounded(completed),
        failed_per_second: rounded(failed),
        enqueued_per_second: rounded(enqueued),
      },
      workers: activeWorkers(workers),
      error_rate: completed + failed === 0 ? 0 : rounded(failed / (completed + failed)),
    }
  }
}

function countsOf(ledger: Deps['ledger'], queue: string): object {
  const { available, active, scheduled, retryable } = ledger.known.counts(queue)
  return { queue, available, active, scheduled, retryable }
}

/** The names are those that OJS's dashboard reads. */
function activeWorkers(workers: Deps['workers']): object {
  const { workers: listed, summary } = workers.list({ limit: MAX_LISTED, offset: 0 })
  const active = listed.map(({ id, state, activeJobs, lastHeartbeatAt }) => ({
    id,
    state,
    activeJobs,
    lastHeartbeatAt: lastHeartbeatAt === null ? null : timestamp(lastHeartbeatAt),
  }))
  return { total: summary.total, active }
}

function rounded(value: number): number {
  return Number(value.toFixed(3))
}
