import { OjsError } from '../../errors.ts'
import { isFromElsewhere } from '../../job/arrival.ts'
import { mayDie } from '../../job/dead-letter.ts'
import { isErased, isTerminal, type JobRow } from '../../job/job.ts'
import { pageOf } from '../../job/page.ts'
import { partOfHeap } from '../../memory.ts'
import type { DeadLetterQuery, Revived } from '../dead-letters.ts'
import type { DeadOutcome, DeadToken } from '../native.ts'
import { adoptJob } from './adoption.ts'
import { discardJob } from './discard.ts'
import type { CopiedRow } from './end-statements.ts'
import { failed } from './life.ts'
import { toJobRow } from './rows.ts'
import { changed, type Store } from './store.ts'
import { rivalOf } from './unique.ts'

interface Times {
  now: number
  wall: number
}

/** A token that died in the broker takes its job with it, where the job waited for that token. */
export function discardDead(store: Store, token: DeadToken, times: Times): DeadOutcome {
  const row = toJobRow(store.statements.find.get(token.id))
  if (row === null) return adoptDead(store, token, times)
  if (isFromElsewhere(token, row)) return { outcome: 'ignored' }
  if (!mayDie(token, row, times)) {
    noteCopyOf(store, token, row)
    return { outcome: 'ignored' }
  }
  return { outcome: 'discarded', job: discardRow(store, token, row, times.now) }
}

function noteCopyOf(store: Store, { generation, attempt }: DeadToken, row: JobRow): void {
  if (generation > row.generation) return
  if (generation < row.generation) store.stale.add(row.queue)
  else if (isTerminal(row.state)) noteCopyOfEnded(store, row)
  else noteCopyOfRunning(store, row, attempt)
}

/**
 * A native worker has nacked its delivery. Of a job that was discarded it may be the copy that is
 * owed; one that expired was owed none, and has one now. Nobody needs that of any other. In either
 * case the token is back.
 */
function noteCopyOfEnded(store: Store, row: JobRow): void {
  const isOwed = row.state === 'discarded' && !row.deadLetterCopied
  if (isOwed) recordCopy(store, row.id, row.generation)
  else if (!row.isDeadLetter) store.stale.add(row.queue)
  store.statements.tokenReturned.run(row.id, row.generation, null)
}

/**
 * RabbitMQ had lost the connection of whoever held the delivery, and the queue's limits took the token
 * then: the lease, or the retry that the ledger holds, goes on without one. Whether it was the one
 * behind a native worker's lease cannot be told: its number may be that of an earlier attempt.
 */
function noteCopyOfRunning(store: Store, row: JobRow, attempt: number): void {
  // When the job is over nobody needs it, but for a dead letter.
  store.stale.add(row.queue)
  if (attempt !== row.attempt && row.holder !== 'native') return
  store.statements.handOverAny.run(row.id, row.generation, row.attempt)
  store.statements.tokenReturned.run(row.id, row.generation, null)
}

function adoptDead(store: Store, token: DeadToken, { now }: Times): DeadOutcome {
  // Cancelled before it came: nobody's job, and now nobody's token.
  if (store.tombstones.has(token.id)) return { outcome: 'ignored' }
  const adopted = adoptJob(store, token, now)
  if (adopted instanceof OjsError) return { outcome: 'malformed', error: adopted }
  const row = changed(store.statements.find.get(adopted.id))
  return { outcome: 'discarded', job: discardRow(store, token, row, now) }
}

function discardRow(store: Store, token: DeadToken, row: JobRow, now: number): JobRow {
  const { error, errors, isDeadLetter, isCounted = false } = token.describe(row)
  const job = discardJob(store, row, now, {
    error,
    errors,
    isDeadLetter,
    // The token of a native worker keeps its number through later attempts.
    attempt: token.isExpired ? row.attempt : Math.max(token.attempt, row.attempt),
    completedAt: token.isExpired ? null : now,
    deadLetterCopied: true,
    tokenOut: false,
  })
  if (!token.isExpired && !isCounted) failed(store, job, now)
  if (!isDeadLetter) store.stale.add(job.queue)
  return job
}

/** The answer has it all once more, and again in bytes. */
const MAX_LISTED_TEXT = partOfHeap(1 / 32, 64 * 1024 * 1024)

/** One page, newest first. */
export function deadLetters(
  store: Store,
  query: DeadLetterQuery,
): { jobs: JobRow[]; total: number } {
  const { queue, limit, offset } = query
  const { deadLetters: ofAll, deadLettersOf, find } = store.statements
  const page = queue === null ? ofAll.all(limit, offset) : deadLettersOf.all(limit, offset, queue)
  const jobs = pageOf(page, ({ id }) => changed(find.get(id)), MAX_LISTED_TEXT)
  return { jobs, total: store.counter.deadLetters(queue) }
}

/** The next life of a dead letter: it takes its `unique` key again, unless another has it now. */
export function revive(store: Store, id: string, generation: number, now: number): Revived {
  const row = toJobRow(store.statements.find.get(id))
  const rival = row?.isDeadLetter ? rivalOf(store, row, now) : null
  if (rival) return { outcome: 'conflict', ...rival }
  const job = toJobRow(store.statements.revive.get(id, generation, now, store.nonces.next()))
  if (!row || !job) return 'stale'
  forget(store, row)
  store.counter.moved(job.queue, 'discarded', 'available')
  return job
}

/** It is erased; the id stays for a while, so that its tokens are known for what they are. */
export function deleteDeadLetter(store: Store, id: string, now: number): boolean {
  const row = toJobRow(store.statements.find.get(id))
  if (!row || store.statements.deleteDeadLetter.run(id, now).changes !== 1) return false
  forget(store, row)
  store.counter.moved(row.queue, 'discarded', null)
  return true
}

/** It is no dead letter any more, and nobody needs its copy. */
function forget(store: Store, row: JobRow): void {
  store.counter.moved(row.queue, 'dead_letter', null)
  if (row.deadLetterCopied) store.stale.add(row.queue)
}

/** A nacked delivery has made its copy. */
function recordCopy(store: Store, id: string, generation: number): void {
  noteCopy(store, id, generation, store.statements.deadLetterCopied.get(id, generation))
}

/** The broker has confirmed a copy that was published for this nonce. */
export function confirmCopy(store: Store, id: string, outbox: number): void {
  // A nonce that is not the row's any more was that of an earlier life.
  noteCopy(store, id, null, store.statements.copyConfirmed.get(id, outbox))
}

/**
 * The copy of a plain discard is stale at once. So is one that comes to be known when the row has
 * gone on: deleted, revived or pruned before.
 */
function noteCopy(
  store: Store,
  id: string,
  generation: number | null,
  copied: CopiedRow | undefined,
): void {
  if (copied) {
    if (copied.isDeadLetter === 0) store.stale.add(copied.queue)
    return
  }
  const row = toJobRow(store.statements.find.get(id))
  if (!row) return
  const isPast = generation === null || row.generation > generation || isErased(row.state)
  if (isPast) store.stale.add(row.queue)
}
