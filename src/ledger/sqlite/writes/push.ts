/** PUSH and PUSH batch, in one write. */
import { isErased, type NewJob } from '../../../job/job.ts'
import type { Admitted, EnqueueTerms, Inserted, InsertedAll } from '../../enqueued.ts'
import { answerOf } from '../../writes/remembered.ts'
import { TakenBack } from '../../writes/taken-back.ts'
import { admitAll, forgetJobMessages, isAdmitted } from '../../writes/unique.ts'
import type { Access } from '../commit/access.ts'
import type { Protect } from '../commit/group-commit.ts'
import { toJobRow } from '../sql/rows.ts'
import type { Store } from '../state/store.ts'
import { rememberedKey, rememberKey } from './idempotency.ts'
import { enqueue } from './insert.ts'
import { admit } from './unique.ts'

/** PUSH of one job. */
export function insertOne(
  access: Access,
  store: Store,
  job: NewJob,
  now: number,
  terms: EnqueueTerms,
): Promise<Inserted> {
  const { request, retryOf } = terms
  const run = (protectWrite: Protect): Inserted => {
    if (job.unique === null && !request && retryOf === undefined) {
      return insertPlain(store, job, now, terms, protectWrite)
    }
    let isProtected = false
    const protect = () => {
      isProtected = true
      protectWrite()
    }
    if (request || retryOf !== undefined || mayTakeMore(store, job)) protect()
    const remembered = request && rememberedKey(store.statements, request.key, now)
    if (remembered) return { outcome: 'remembered', remembered }
    const inserted = admit(store, job, now, terms, protect)
    if (isAdmitted(inserted)) noteBeside(store, job, inserted, terms, now)
    // The write may have cancelled jobs to replace them before the id was found taken: undo that.
    if (inserted.outcome === 'duplicate' && isProtected) throw new TakenBack(inserted)
    return inserted
  }
  return access.write(run, 1, terms.enough)
}

/** The usual case: there is nothing to look at but the id. */
function insertPlain(
  store: Store,
  job: NewJob,
  now: number,
  { cause }: EnqueueTerms,
  protect: Protect,
): Inserted {
  const takesMore = mayTakeMore(store, job)
  if (takesMore) protect()
  const enqueued = enqueue(store, job, now, cause)
  // It may have removed a tombstone before the id was found taken: undo that.
  if (enqueued.outcome === 'duplicate' && takesMore) throw new TakenBack(enqueued)
  return enqueued
}

/** What the write of one job notes beside it. */
function noteBeside(
  store: Store,
  job: NewJob,
  admitted: Admitted,
  { request, retryOf }: EnqueueTerms,
  now: number,
): void {
  if (request) rememberKey(store.statements, request, answerOf([job], [admitted]), now)
  if (retryOf !== undefined && admitted.outcome === 'inserted') linkRetry(store, retryOf, job.id)
}

/** Notes on a dead letter as which job it was retried. */
function linkRetry({ statements }: Store, id: string, retriedAs: string): void {
  const row = toJobRow(statements.find.get(id))
  if (row === null || isErased(row.state)) return
  statements.setCarry.run(id, JSON.stringify({ ...row.carry, retriedAs }))
}

/**
 * May the insert of this job take more than its own row: record its queue, remove a tombstone, stand in the line of
 * its concurrency key?
 */
function mayTakeMore({ queues, tombstones }: Store, { queue, carry }: NewJob): boolean {
  return !queues.hasNow(queue) || tombstones.count > 0 || carry?.concurrency !== undefined
}

/** PUSH batch: stores the jobs in order; each sees the changes of those before it. */
export function insertMany(
  access: Access,
  store: Store,
  jobs: readonly NewJob[],
  now: number,
  terms: EnqueueTerms,
): Promise<InsertedAll> {
  return access.writeMany(jobs.length, (): InsertedAll => {
    const { request } = terms
    const remembered = request && rememberedKey(store.statements, request.key, now)
    if (remembered) return { outcome: 'remembered', remembered }
    const stored = admitAll(jobs, (job, room) => admit(store, job, now, terms, undefined, room))
    forgetJobMessages(jobs, stored, ({ id, generation }) =>
      store.statements.messageReturned.run(id, generation, null),
    )
    if (request) rememberKey(store.statements, request, answerOf(jobs, stored), now)
    return { outcome: 'inserted', stored }
  })
}
