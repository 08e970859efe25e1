/** Progress and checkpoints: noted in the write that extends the lease of their job. */
import { isErased, isTerminal, type JobStanding } from '../../../job/job.ts'
import { noted } from '../../../job/progress.ts'
import type { ExtendedLease } from '../../leases.ts'
import type {
  CheckpointLedger,
  NoteFence,
  NotNoted,
  ProgressLedger,
  Reported,
  Saved,
} from '../../progress.ts'
import type { CheckpointReads, ProgressReads } from '../../reads.ts'
import type { Access } from '../commit/access.ts'
import { toStanding } from '../sql/rows.ts'
import type { Store } from './store.ts'

/** See `ProgressLedger`. */
export class SqliteProgress implements ProgressLedger, ProgressReads {
  readonly #store: Store
  readonly #access: Access

  constructor(store: Store, access: Access) {
    this.#store = store
    this.#access = access
  }

  async find(id: string): ReturnType<ProgressReads['find']> {
    return this.#access.read(() => this.#store.notes.progress(id))
  }

  async present(ids: readonly string[]): ReturnType<ProgressReads['present']> {
    return this.#access.read(() => this.#store.notes.present(ids))
  }

  report(...[id, fence, report]: Parameters<ProgressLedger['report']>): Promise<Reported> {
    return this.#access.writeMany(1, () => {
      const { statements, notes } = this.#store
      const { now, checkpoint } = report
      const found = jobOf(this.#store, id, fence)
      if ('outcome' in found) return found
      const lease = extend(this.#store, found, fence, now)
      if (lease === null) return { outcome: 'stale', job: found }
      const { note, isTold } = noted(notes.progress(id), found, report, now)
      const { generation, attempt, progress, message, data, toldAt } = note
      notes.useProgress()
      statements.noteProgress.run(id, generation, attempt, progress, message, now, toldAt, data)
      const saved = checkpoint === null ? null : notes.save(id, now, checkpoint)
      return { outcome: 'noted', job: found, note, lease, isTold, checkpoint: saved }
    })
  }
}

/** See `CheckpointLedger`. */
export class SqliteCheckpoints implements CheckpointLedger, CheckpointReads {
  readonly #store: Store
  readonly #access: Access

  constructor(store: Store, access: Access) {
    this.#store = store
    this.#access = access
  }

  async find(id: string): ReturnType<CheckpointReads['find']> {
    return this.#access.read(() => this.#store.notes.checkpoint(id))
  }

  save(...[id, fence, { now, state }]: Parameters<CheckpointLedger['save']>): Promise<Saved> {
    return this.#access.writeMany(1, () => {
      const found = jobOf(this.#store, id, fence)
      if ('outcome' in found) return found
      const lease = extend(this.#store, found, fence, now)
      const isWaiting = fence.waitingToo && found.state !== 'active' && !isTerminal(found.state)
      if (lease === null && !isWaiting) return { outcome: 'stale', job: found }
      return { outcome: 'saved', checkpoint: this.#store.notes.save(id, now, state), lease }
    })
  }

  remove(id: string): Promise<boolean> {
    const { forgetCheckpoint } = this.#store.statements
    return this.#access.write(() => forgetCheckpoint.run(id).changes === 1)
  }
}

function jobOf({ statements }: Store, id: string, { ofQueue }: NoteFence): JobStanding | NotNoted {
  const row = toStanding(statements.standing.get(id))
  if (row === null || isErased(row.state)) return { outcome: 'unknown' }
  return ofQueue !== null && row.queue !== ofQueue ? { outcome: 'elsewhere' } : row
}

/** Null: the job is not active, or the fence does not match. */
function extend(
  { statements }: Store,
  row: JobStanding,
  { workerId, attempt = null, generation = null }: NoteFence,
  now: number,
): ExtendedLease | null {
  const worker = workerId ?? row.workerId ?? ''
  return statements.extend.get(row.id, now, null, worker, attempt, generation) ?? null
}
