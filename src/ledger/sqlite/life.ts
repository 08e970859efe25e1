import type { JobRow, RowState } from '../../job/job.ts'
import { counted } from './state-counter.ts'
import type { Store } from './store.ts'

/** What a row was when the write found it. */
type Before = Pick<JobRow, 'state' | 'holder'>

const waiting = (state: RowState): Before => ({ state, holder: null })

export const AVAILABLE = waiting('available')
export const ACTIVE = waiting('active')

/** An attempt of `job` begins: what is kept beside the rows. Inside its write. */
export function started(store: Store, job: JobRow, before: Before): void {
  store.counter.moved(job.queue, counted(before.state), 'active')
  store.counter.left({ ...before, queue: job.queue })
}

/**
 * The life of `job` is over, completed, discarded or cancelled: what is kept beside the rows.
 * Inside its write.
 */
export function ended(store: Store, job: JobRow, before: Before): void {
  const from = counted(before.state)
  if (job.state === 'discarded') store.counter.discarded(job, from)
  else store.counter.moved(job.queue, from, counted(job.state))
  store.counter.left({ ...before, queue: job.queue })
}
