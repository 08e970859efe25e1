import type { JobRow } from '../../job/job.ts'
import { counted } from './state-counter.ts'
import type { Store } from './store.ts'

/** What a row was when the write found it. */
type Before = Pick<JobRow, 'state' | 'holder'>

/** `isTimed`: `startedAt` says when the attempt began. `elapsedMs`: what its worker says it took. */
interface Timing {
  isTimed: boolean
  elapsedMs?: number | undefined
}

const TIMED: Timing = { isTimed: true }

export const AVAILABLE: Before = { state: 'available', holder: null }
export const ACTIVE: Before = { state: 'active', holder: null }

/** An attempt of `job` begins: what is kept beside the rows. Inside its write. */
export function started(
  store: Store,
  job: JobRow,
  before: Before,
  { isTimed }: Timing = TIMED,
): void {
  store.counter.moved(job.queue, counted(before.state), 'active')
  store.counter.left(job.queue, before)
  // What a native worker had, or was running without a word, was in no queue.
  const hasWaited = isTimed && before.state !== 'active' && before.holder !== 'native'
  if (!hasWaited || job.startedAt === null) return
  store.traffic.waited(job.queue, job.startedAt, job.startedAt - job.enqueuedAt)
}

/** An attempt of `job` has failed, whatever becomes of it. Inside its write. */
export function failed(store: Store, { queue }: Pick<JobRow, 'queue'>, now: number): void {
  store.traffic.failed(queue, now)
}

/**
 * The life of `job` is over, completed, discarded or cancelled: what is kept beside the rows.
 * Inside its write.
 */
export function ended(
  store: Store,
  job: JobRow,
  before: Before,
  { isTimed, elapsedMs = Number.POSITIVE_INFINITY }: Timing = TIMED,
): void {
  const from = counted(before.state)
  if (job.state === 'discarded') store.counter.discarded(job, from)
  else store.counter.moved(job.queue, from, counted(job.state))
  store.counter.left(job.queue, before)
  store.workflows.ended(store, job)
  if (job.completedAt === null || job.state !== 'completed') return
  const isKnown = isTimed && job.startedAt !== null
  // Its word may have waited for us for minutes.
  const durationMs = isKnown ? Math.min(elapsedMs, job.completedAt - (job.startedAt ?? 0)) : null
  store.traffic.completed(job.queue, job.completedAt, durationMs)
}
