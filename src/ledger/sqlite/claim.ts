import { OjsError } from '../../errors.ts'
import { type Arrival, decideArrival, recordSkipped } from '../../job/arrival.ts'
import type { JobRow, JobState, NewJob } from '../../job/job.ts'
import type { ClaimResult, ClaimTerms, ClaimToken } from '../ledger.ts'
import type { Protect } from './group-commit.ts'
import { toJobRow } from './rows.ts'
import { insertJob, type Store } from './store.ts'

/** One token of a FETCH, inside its transaction: sees what the tokens before it did. */
export function claimToken(
  store: Store,
  token: ClaimToken,
  terms: ClaimTerms,
  protect: Protect,
): ClaimResult {
  const job = claimNext(store, token, terms)
  if (job) return { verdict: 'claimed', job, adopted: false }
  protect()
  const row = toJobRow(store.statements.find.get(token.id))
  return row ? applyArrival(store, token, terms, row) : adopt(store, token, terms)
}

/** The usual case in one statement: the next attempt of an available job. */
function claimNext(store: Store, token: ClaimToken, terms: ClaimTerms): JobRow | null {
  const job = toJobRow(
    store.statements.claimNext.get(
      terms.workerId,
      terms.leaseMs,
      terms.defaultLeaseMs,
      terms.now,
      token.id,
      token.generation,
      token.attempt,
      terms.wall,
    ),
  )
  if (job) store.counter.moved(job.queue, 'available', 'active')
  return job
}

function applyArrival(
  store: Store,
  token: ClaimToken,
  terms: ClaimTerms,
  row: JobRow,
): ClaimResult {
  const { isHeldDelivery } = token
  const arrival = decideArrival(token, row, { now: terms.now, wall: terms.wall, isHeldDelivery })
  switch (arrival.do) {
    case 'claim':
      return start(store, token, terms, row, arrival)
    case 'exhaust':
      return exhaust(store, token, terms, row, arrival)
    case 'expire':
      return expire(store, terms, row)
    case 'hand-over':
      return { verdict: 'hand-over', job: one(store.statements.handOverAny.get(row.id)) }
    case 'rearm':
      return { verdict: 'rearmed', job: rearm(store, row) }
    case 'hold':
      return { verdict: 'hold', job: row, until: arrival.until }
    case 'drop':
    case 'keep':
    case 'dead-letter':
      return { verdict: arrival.do, job: row }
    case 'adopt':
      throw new Error(`token of ${row.id}: a row that exists cannot be adopted`)
  }
}

/**
 * An unknown id: a job published natively, or one that this ledger has lost. It is stored as if
 * it had been waiting for exactly this token, and then treated like any other.
 */
function adopt(store: Store, token: ClaimToken, terms: ClaimTerms): ClaimResult {
  const job = readBody(token)
  if (job instanceof OjsError) return { verdict: 'malformed', error: job }
  const { generation, attempt } = token
  insertJob(store, job, { now: terms.now, generation, attempt: attempt - 1, outbox: null })
  const claimed = claimNext(store, token, terms)
  if (claimed) return { verdict: 'claimed', job: claimed, adopted: true }
  return applyArrival(store, token, terms, one(store.statements.find.get(job.id)))
}

function readBody(token: ClaimToken): NewJob | OjsError {
  try {
    const job = token.adopt()
    if (job.id === token.id) return job
    return new OjsError('invalid_request', `The body names another id than the token.`)
  } catch (error) {
    if (error instanceof OjsError) return error
    // Whatever it is, it is about this message: thrown on, it would fail every claim beside it, and
    // again at the next fetch.
    return new OjsError('invalid_request', 'The body cannot be read as a job.', { cause: error })
  }
}

function start(
  store: Store,
  token: ClaimToken,
  terms: ClaimTerms,
  row: JobRow,
  arrival: Extract<Arrival, { do: 'claim' }>,
): ClaimResult {
  const { error, errors } = skippedErrors(token, terms, row, arrival.skipped)
  const job = one(
    store.statements.claim.get(
      terms.workerId,
      terms.leaseMs,
      terms.defaultLeaseMs,
      terms.now,
      row.id,
      row.generation,
      row.state,
      row.attempt,
      arrival.attempt,
      arrival.promote ? terms.now : null,
      error,
      errors,
    ),
  )
  store.counter.moved(row.queue, counted(row), 'active')
  return { verdict: 'claimed', job, adopted: false }
}

/** No attempt is left; the copy in the DLX queue is owed. */
function exhaust(
  store: Store,
  token: ClaimToken,
  terms: ClaimTerms,
  row: JobRow,
  arrival: Extract<Arrival, { do: 'exhaust' }>,
): ClaimResult {
  const said = skippedErrors(token, terms, row, arrival.skipped)
  const change = { ...said, completedAt: terms.now, deadLetterCopied: false }
  return { verdict: 'exhausted', job: discard(store, terms, row, change) }
}

/** Nothing is owed: the token is dropped, and an expired job is no dead letter. */
function expire(store: Store, terms: ClaimTerms, row: JobRow): ClaimResult {
  const { error, errors } = row
  const change = { error, errors, completedAt: null, deadLetterCopied: true }
  return { verdict: 'expired', job: discard(store, terms, row, change) }
}

type Discard = Pick<JobRow, 'error' | 'errors' | 'completedAt' | 'deadLetterCopied'>

function discard(store: Store, terms: ClaimTerms, row: JobRow, change: Discard): JobRow {
  const job = one(
    store.statements.discard.get(
      row.id,
      row.generation,
      row.state,
      row.attempt,
      terms.now,
      change.completedAt,
      change.deadLetterCopied ? 1 : 0,
      change.error,
      change.errors,
    ),
  )
  store.counter.moved(row.queue, counted(row), 'discarded')
  return job
}

/** It came more than a minute early: the caller acknowledges it, the relay sends another. */
function rearm(store: Store, row: JobRow): JobRow {
  return one(store.statements.rearmArrived.get(row.id, store.nonces.next()))
}

function skippedErrors(
  token: ClaimToken,
  terms: ClaimTerms,
  row: JobRow,
  skipped: readonly number[],
): Pick<JobRow, 'error' | 'errors'> {
  const reported = token.reportedError ?? null
  const { errors, last } = recordSkipped(row.errors, skipped, reported, terms.now)
  return { errors, error: last ?? row.error }
}

/** The row that a statement must have changed: it was read in the same transaction. */
function one(raw: unknown): JobRow {
  const row = toJobRow(raw)
  if (!row) throw new Error('a row changed inside its own transaction')
  return row
}

function counted(row: JobRow): JobState | null {
  return row.state === 'withdrawn' ? null : row.state
}
