/** Whether any job has progress or a checkpoint, so that other jobs do not pay for the look. */
import type { Checkpoint, JobRow } from '../../../job/job.ts'
import { keepsCheckpoint, type ProgressNote } from '../../../job/progress.ts'
import { onlyRow } from '../sql/driver.ts'
import type { Statements } from '../sql/statements.ts'

/**
 * What jobs have said of themselves. Remembers that a table has been used since the start, or was not empty
 * then; where none is, nobody looks for rows. True for too long costs a look, never a row.
 */
export class Notes {
  readonly #statements: Statements
  #hasProgress: boolean
  #hasCheckpoints: boolean

  constructor(statements: Statements) {
    this.#statements = statements
    const { progress, checkpoints } = onlyRow(statements.hasNotes.get())
    this.#hasProgress = progress === 1
    this.#hasCheckpoints = checkpoints === 1
  }

  /** Inside the write that stores progress. */
  useProgress(): void {
    this.#hasProgress = true
  }

  progress(id: string): ProgressNote | null {
    return this.#hasProgress ? (this.#statements.progress.get(id) ?? null) : null
  }

  /** What was reported in the present attempts of these jobs. */
  present(ids: readonly string[]): ReadonlyMap<string, ProgressNote> {
    if (!this.#hasProgress) return new Map()
    const found = this.#statements.presentProgress.all(JSON.stringify(ids))
    return new Map(found.map(({ jobId, ...note }) => [jobId, note]))
  }

  /** Inside a write. Returns the checkpoint as it is from now on. */
  save(id: string, now: number, state: string): Checkpoint {
    this.#hasCheckpoints = true
    const { sequence } = onlyRow(this.#statements.saveCheckpoint.get(id, now, state))
    return { sequence, state, createdAt: now }
  }

  checkpoint(id: string): Checkpoint | null {
    return this.#hasCheckpoints ? (this.#statements.checkpoint.get(id) ?? null) : null
  }

  /** Inside a write that starts an attempt: the job's row with its checkpoint. */
  resume(job: JobRow): JobRow {
    if (!this.#hasCheckpoints) return job
    const checkpoint = this.checkpoint(job.id)
    if (checkpoint) job.checkpoint = checkpoint
    return job
  }

  /** Inside the write that ends the job. */
  ended(job: JobRow): void {
    if (this.#hasCheckpoints && !keepsCheckpoint(job)) this.#statements.forgetCheckpoint.run(job.id)
  }

  /** Inside the write that deletes or erases the job's row. */
  forget(id: string): void {
    if (this.#hasCheckpoints) this.#statements.forgetCheckpoint.run(id)
    if (this.#hasProgress) this.#statements.forgetProgress.run(id)
  }

  /** As `forget`, by the number of the row, which is there still. */
  forgetRow(seq: number): void {
    if (!this.#hasCheckpoints && !this.#hasProgress) return
    const row = this.#statements.idOf.get(seq)
    if (row) this.forget(row.id)
  }
}
