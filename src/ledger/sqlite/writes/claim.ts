/** FETCH: what each message of it may do, by the arrival table. */
import { invalidField, OjsError } from '../../../errors.ts'
import { type Arrival, decideArrival, isClaimable, isFromElsewhere } from '../../../job/arrival.ts'
import { historyLine } from '../../../job/history/changes.ts'
import type { JobRow } from '../../../job/job.ts'
import { type ReportedError, recordSkipped } from '../../../job/retry/failure.ts'
import { exhausting } from '../../../job/transitions/discards.ts'
import type { ClaimedMessage, ClaimResult, ClaimTerms } from '../../leases.ts'
import type { Protect } from '../commit/group-commit.ts'
import { holdArrived, mayBegin } from '../concurrency/lines.ts'
import { changed, toJobRow } from '../sql/rows.ts'
import type { Store } from '../state/store.ts'
import { adoptJob } from './adopt.ts'
import { AVAILABLE, started } from './attempt-counts.ts'
import { discardJob, expireJob } from './discard.ts'
import { leaveUnowned, startAttempt } from './start.ts'

/**
 * Decides one job message of a FETCH. Runs inside the FETCH's write, so it sees the changes of earlier
 * messages.
 */
export function claimedMessage(
  store: Store,
  jobMessage: ClaimedMessage,
  terms: ClaimTerms,
  protect: Protect,
): ClaimResult {
  if (jobMessage.queue !== undefined && store.pauses.isPaused(jobMessage.queue))
    return { verdict: 'paused' }
  const job = claimNext(store, jobMessage, terms)
  if (job) return { verdict: 'claimed', job: store.notes.resume(job) }
  protect()
  const row = toJobRow(store.statements.find.get(jobMessage.id))
  if (row === null) return adopt(store, jobMessage, terms)
  return isFromElsewhere(jobMessage, row)
    ? { verdict: 'malformed', error: idOfAnother(row) }
    : applyArrival(store, jobMessage, terms, row)
}

function idOfAnother({ id, queue }: JobRow): OjsError {
  return invalidField('id', `The id '${id}' already belongs to a job of queue '${queue}'.`)
}

/** The usual case in one statement: the next attempt of an available job. */
function claimNext(store: Store, jobMessage: ClaimedMessage, terms: ClaimTerms): JobRow | null {
  const job = toJobRow(
    store.statements.claimNext.get(
      terms.workerId,
      terms.leaseMs,
      terms.defaultLeaseMs,
      terms.now,
      jobMessage.id,
      jobMessage.generation,
      jobMessage.attempt,
      terms.wall,
      jobMessage.queue ?? null,
      historyLine(terms.now, 'active', jobMessage.attempt, terms.workerId, terms.cause),
    ),
  )
  if (job) started(store, job, AVAILABLE)
  return job
}

function applyArrival(
  store: Store,
  jobMessage: ClaimedMessage,
  terms: ClaimTerms,
  row: JobRow,
): ClaimResult {
  const { isHeldDelivery } = jobMessage
  const arrival = decideArrival(jobMessage, row, {
    now: terms.now,
    wall: terms.wall,
    isHeldDelivery,
  })
  switch (arrival.do) {
    case 'claim': {
      if (row.state !== 'active' && !mayBegin(store, row)) {
        return { verdict: 'held', job: hold(store, jobMessage, row, arrival, terms) }
      }
      const job = startAttempt(store, row, arrival, 'gateway', terms, reportedBy(jobMessage))
      const resumed = store.notes.resume(job)
      return { verdict: 'claimed', job: resumed, ...(arrival.promote && { promoted: true }) }
    }
    case 'exhaust':
      return exhaust(store, jobMessage, row, arrival, terms.now)
    case 'expire':
      return { verdict: 'expired', ...expireJob(store, row, terms.now, { messageOut: true }) }
    case 'hand-over':
      leaveUnowned(store, row)
      return { verdict: 'hand-over', job: row }
    case 'rearm':
      return { verdict: 'rearmed', job: rearm(store, row) }
    case 'hold':
      return { verdict: 'hold', job: row, until: arrival.until }
    case 'drop':
    case 'keep':
    case 'dead-letter':
      return { verdict: arrival.do, job: row }
  }
}

/** The attempts before the one that the message would cause are over, as they are when it is claimed. */
function hold(
  store: Store,
  jobMessage: ClaimedMessage,
  row: JobRow,
  { attempt, skipped }: Extract<Arrival, { do: 'claim' }>,
  { now }: ClaimTerms,
): JobRow {
  const { error, errors } = recordSkipped(row, skipped, reportedBy(jobMessage), now)
  return holdArrived(store, row, { attempt: attempt - 1, error, errors }, now)
}

/** Stores a job that the ledger does not know, and then decides its job message like any other. */
function adopt(store: Store, jobMessage: ClaimedMessage, terms: ClaimTerms): ClaimResult {
  if (store.tombstones.has(jobMessage.id, jobMessage.queue ?? null))
    return { verdict: 'tombstoned' }
  const job = adoptJob(store, jobMessage, terms.now)
  if (job instanceof OjsError) return { verdict: 'malformed', error: job }
  const claimed = claimNext(store, jobMessage, terms)
  if (claimed) return { verdict: 'claimed', job: claimed }
  const row = changed(store.statements.find.get(job.id))
  // Not held as other early messages are: a producer that publishes many at once would fill the prefetch.
  return row.state === 'scheduled' && !isClaimable(row, terms)
    ? { verdict: 'scheduled', job: row }
    : applyArrival(store, jobMessage, terms, row)
}

function exhaust(
  store: Store,
  jobMessage: ClaimedMessage,
  row: JobRow,
  { skipped }: Extract<Arrival, { do: 'exhaust' }>,
  now: number,
): ClaimResult {
  const discard = exhausting(row, skipped, reportedBy(jobMessage), now)
  return { verdict: 'exhausted', ...discardJob(store, row, now, discard) }
}

/**
 * The job message came more than a minute early: the caller acknowledges it, and the relay publishes another.
 */
function rearm(store: Store, row: JobRow): JobRow {
  return changed(store.statements.rearmArrived.get(row.id, store.nonces.next()))
}

function reportedBy(jobMessage: ClaimedMessage): ReportedError | null {
  return jobMessage.reportedError?.() ?? null
}
