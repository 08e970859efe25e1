import { OjsError } from '../../errors.ts'
import { isTerminal, type JobRow, type NewJob } from '../../job/job.ts'
import type { Inserted, Stored, WithdrawFence } from '../ledger.ts'
import { toJobRow } from './rows.ts'
import { insertJob, type Store } from './store.ts'

/** Ends a batch: everything it has stored is taken back with it. Never leaves this folder. */
export class IdTaken extends OjsError {
  readonly index: number

  constructor(index: number) {
    super('duplicate', 'A job of the batch has an id that is taken.')
    this.index = index
  }
}

/** One job as a PUSH stores it. Null when the id is taken. */
export function enqueue(store: Store, job: NewJob, now: number): Stored | null {
  const outbox = job.start.state === 'available' ? store.nonces.next() : null
  const generation = insertJob(store, job, { now, generation: 0, attempt: 0, outbox })
  return generation === null ? null : { generation, outbox, enqueuedAt: now }
}

/** A schedule that was published natively, unless its id was cancelled before it came. */
export function enqueueNative(
  store: Store,
  job: NewJob,
  now: number,
): Inserted | { outcome: 'tombstoned' } {
  if (store.tombstones.has(job.id)) return { outcome: 'tombstoned' }
  const stored = enqueue(store, job, now)
  return stored ? { outcome: 'inserted', ...stored } : { outcome: 'duplicate' }
}

/** All jobs of a batch, in order. Throws `IdTaken` at the first id that is. */
export function enqueueAll(store: Store, jobs: readonly NewJob[], now: number): Stored[] {
  return jobs.map((job, index) => {
    const stored = enqueue(store, job, now)
    if (!stored) throw new IdTaken(index)
    return stored
  })
}

/**
 * Withdraws one job of a batch unless somebody has started it. By attempt and not by nonce: its own
 * token may have been confirmed before another one was refused, or its schedule may have come.
 */
export function withdrawUnstarted(store: Store, { id, generation }: WithdrawFence): boolean {
  const row = toJobRow(store.statements.find.get(id))
  if (!row || row.state === 'withdrawn' || isTerminal(row.state)) return false
  const { changes } = store.statements.withdrawUnstarted.run(id, generation, row.state)
  if (changes !== 1) return false
  store.counter.moved(row.queue, row.state, null)
  return true
}

/** Claimable now, or at its time when that is still ahead. */
export function activate(store: Store, id: string, now: number, wall: number): JobRow | 'stale' {
  const job = toJobRow(store.statements.activate.get(id, now, wall, store.nonces.next()))
  if (!job) return 'stale'
  store.counter.moved(job.queue, 'pending', job.state === 'scheduled' ? 'scheduled' : 'available')
  return job
}
