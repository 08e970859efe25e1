/** Which workers may be stuck: those whose longest job runs far longer than the jobs of its queue usually do. */
import type { JobItem, StatsPoint } from '../../api/openapi.ts'

/** As many times as long as 99 % of the jobs of its queue that ended within a day … */
const TIMES = 10
/** … but less than this is never long … */
const LEAST_MS = 60_000
/** … and this is long where no job has ended. */
const UNKNOWN_MS = 3_600_000

/** How long 99 % of a queue's jobs took at most, in milliseconds; null: none has ended. */
export type Usual = number | null

export interface Stuck {
  id: string
  job: JobItem
  usual: Usual
}

export function limitMs(usual: Usual): number {
  return usual === null ? UNKNOWN_MS : Math.max(LEAST_MS, TIMES * usual)
}

export function usualIn(points: readonly StatsPoint[]): Usual {
  const known = points.flatMap(({ duration_p99_ms: ms }) => (ms === undefined ? [] : [ms]))
  return known.length === 0 ? null : Math.max(...known)
}

export function longestByWorker(jobs: readonly JobItem[]): Map<string, JobItem> {
  const longest = new Map<string, JobItem>()
  for (const job of jobs) {
    const { worker_id: id = '', started_at: at = '' } = job
    const before = longest.get(id)?.started_at
    if (at !== '' && (before === undefined || at < before)) longest.set(id, job)
  }
  return longest
}

export function runsMs({ started_at: at = '' }: Pick<JobItem, 'started_at'>, now: number): number {
  return Math.max(0, now - Date.parse(at))
}

/** Only of jobs that have run so long the rest need be known. */
export function mayBeStuck(job: JobItem, now: number): boolean {
  return runsMs(job, now) > LEAST_MS
}

/** `usual`: by queue, as far as it is known. */
export function stuckOf(
  longest: ReadonlyMap<string, JobItem>,
  usual: ReadonlyMap<string, Usual>,
  now: number,
): Stuck[] {
  return [...longest].flatMap(([id, job]) => {
    const known = usual.get(job.queue)
    if (known === undefined || runsMs(job, now) <= limitMs(known)) return []
    return [{ id, job, usual: known }]
  })
}
