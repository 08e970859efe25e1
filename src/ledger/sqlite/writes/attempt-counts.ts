/** Counts, traffic and workflows, updated when an attempt begins or a job ends. */
import type { JobRow } from '../../../job/job.ts'
import type { WorkflowNews } from '../../ended.ts'
import { TIMED, type Timing } from '../../writes/traffic.ts'
import { begun, freed } from '../concurrency/lines.ts'
import { counted } from '../state/state-counter.ts'
import type { Store } from '../state/store.ts'
import { limitResult } from './retention.ts'

/** The state and holder of a row before the write. */
type Before = Pick<JobRow, 'state' | 'holder'>

export const AVAILABLE: Before = { state: 'available', holder: null }
export const ACTIVE: Before = { state: 'active', holder: null }

/** Updates counts and traffic when an attempt of `job` begins. Inside the write that starts it. */
export function started(
  store: Store,
  job: JobRow,
  before: Before,
  { isTimed }: Timing = TIMED,
): void {
  store.counter.moved(job.queue, counted(before.state), 'active')
  store.counter.left(job.queue, before)
  if (before.state !== 'active') begun(store, job)
  store.traffic.note.began(job, before, isTimed)
}

/**
 * Updates counts, traffic and workflows when `job` is completed, discarded or cancelled. Inside the write
 * that ends it. Returns what that did to workflows, if the job is a step of one.
 */
export function ended(
  store: Store,
  job: JobRow,
  before: Before,
  timing: Timing = TIMED,
): readonly WorkflowNews[] | undefined {
  store.counter.moved(job.queue, counted(before.state), counted(job.state))
  if (job.isDeadLetter) store.counter.moved(job.queue, null, 'dead_letter')
  store.counter.left(job.queue, before)
  store.notes.ended(job)
  freed(store, job, before.state === 'active')
  const news = store.workflows.ended(store, job)
  if (job.completedAt === null || job.state !== 'completed') return news
  if (job.carry?.resultTtlMs !== undefined) limitResult(store, job, job.carry.resultTtlMs)
  store.traffic.note.completed(job, timing)
  return news
}
