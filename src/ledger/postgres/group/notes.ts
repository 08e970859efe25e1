/** The tables of what jobs say of themselves, and of results that go before their jobs do. */
import type { Checkpoint } from '../../../job/job.ts'
import type { ProgressNote } from '../../../job/progress.ts'
import type { SideTable } from './side.ts'

export const CHECKPOINTS: SideTable<Checkpoint> = {
  name: 'checkpoints',
  key: 'job_id',
  columns: { state: 'text', sequence: 'bigint', createdAt: 'bigint' },
}

export const PROGRESS: SideTable<ProgressNote> = {
  name: 'progress',
  key: 'job_id',
  columns: {
    generation: 'bigint',
    attempt: 'bigint',
    progress: 'float8',
    data: 'text',
    message: 'text',
    updatedAt: 'bigint',
    toldAt: 'bigint',
  },
}

/** `completedAt`: of the completion that the entry is about, because a job may be retried and end again. */
export interface ResultEnd {
  endsAt: number
  completedAt: number
}

export const RESULT_ENDS: SideTable<ResultEnd> = {
  name: 'result_ends',
  key: 'job_id',
  columns: { endsAt: 'bigint', completedAt: 'bigint' },
}
