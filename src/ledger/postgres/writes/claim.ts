/** FETCH: what each message of it may do, by the arrival table. */
import { invalidField, type OjsError } from '../../../errors.ts'
import { type Arrival, decideArrival, isClaimable, isFromElsewhere } from '../../../job/arrival.ts'
import { historyLine } from '../../../job/history/changes.ts'
import { isTerminal, type JobRow } from '../../../job/job.ts'
import { type ReportedError, recordSkipped } from '../../../job/retry/failure.ts'
import { exhausting } from '../../../job/transitions/discards.ts'
import { isNextAttempt, leased } from '../../../job/transitions/lease.ts'
import { type KeptRow, recorded } from '../../../job/transitions/row.ts'
import type { ClaimedMessage, ClaimResult, ClaimTerms } from '../../leases.ts'
import type { Draft } from '../group/draft.ts'
import { holdArrived, mayStart } from '../keyed/lines.ts'
import { isPaused } from '../queues/pauses.ts'
import { adoptJob } from './adopt.ts'
import { discardJob, expireJob } from './end.ts'
import { resumed } from './notes.ts'
import { leaveUnowned, startAttempt } from './start.ts'

/** Decides one job message of a FETCH. */
export function claimedMessage(
  draft: Draft,
  message: ClaimedMessage,
  terms: ClaimTerms,
): ClaimResult {
  if (message.queue !== undefined && isPaused(draft, message.queue)) return { verdict: 'paused' }
  const row = draft.row(message.id)
  if (row === null) return adopt(draft, message, terms)
  if (isFromElsewhere(message, row)) return { verdict: 'malformed', error: idOfAnother(row) }
  return claimNext(draft, message, terms, row)
}

function idOfAnother({ id, queue }: KeptRow): OjsError {
  return invalidField('id', `The id '${id}' already belongs to a job of queue '${queue}'.`)
}

/** The usual case first: the next attempt of an available job. */
function claimNext(
  draft: Draft,
  message: ClaimedMessage,
  terms: ClaimTerms,
  row: KeptRow,
): ClaimResult {
  const isUsual = row.concurrencyKey === null && isNextAttempt(row, message, terms.wall)
  if (!isUsual) return applyArrival(draft, message, terms, row)
  const { attempt } = message
  const line = historyLine(terms.now, 'active', attempt, terms.workerId, terms.cause)
  const start = { ...leased(row, 'gateway', terms), attempt, history: recorded(row, line) }
  const after = draft.change(row, start)
  draft.traffic.began(after, row)
  return { verdict: 'claimed', job: resumed(draft, draft.job(after)) }
}

function applyArrival(
  draft: Draft,
  message: ClaimedMessage,
  terms: ClaimTerms,
  row: KeptRow,
): ClaimResult {
  const { now, wall } = terms
  const { isHeldDelivery } = message
  const arrival = decideArrival(message, row, { now, wall, isHeldDelivery })
  switch (arrival.do) {
    case 'claim': {
      if (row.state !== 'active' && !mayStart(draft, row))
        return { verdict: 'held', job: hold(draft, message, row, arrival, now) }
      const reported = reportedBy(message)
      const job = draft.job(startAttempt(draft, row, arrival, 'gateway', terms, reported))
      const resuming = resumed(draft, job)
      return { verdict: 'claimed', job: resuming, ...(arrival.promote && { promoted: true }) }
    }
    case 'exhaust':
      return exhaust(draft, message, row, arrival, now)
    case 'expire':
      return { verdict: 'expired', ...expireJob(draft, row, now, true) }
    case 'hand-over':
      return { verdict: 'hand-over', job: draft.job(leaveUnowned(draft, row)) }
    case 'rearm': {
      // The job message came more than a minute early: the relay publishes another.
      const rearmed = { outbox: draft.nextNonce(), retryQueueMs: null }
      return { verdict: 'rearmed', job: draft.job(draft.change(row, rearmed)) }
    }
    case 'hold':
      return { verdict: 'hold', job: draft.job(row), until: arrival.until }
    case 'drop':
    case 'keep':
    case 'dead-letter':
      return { verdict: arrival.do, job: draft.job(row) }
  }
}

/** The attempts before the one that the message would cause are over, as they are when it is claimed. */
function hold(
  draft: Draft,
  message: ClaimedMessage,
  row: KeptRow,
  { attempt, skipped }: Extract<Arrival, { do: 'claim' }>,
  now: number,
): JobRow {
  const { error, errors } = recordSkipped(draft.job(row), skipped, reportedBy(message), now)
  return holdArrived(draft, row, { attempt: attempt - 1, error, errors }, now)
}

/** Stores a job that the ledger does not know, and then decides its job message like any other. */
function adopt(draft: Draft, message: ClaimedMessage, terms: ClaimTerms): ClaimResult {
  if (draft.isTombstoned(message.id, message.queue ?? null)) return { verdict: 'tombstoned' }
  const error = adoptJob(draft, message, terms.now)
  if (error !== null) return { verdict: 'malformed', error }
  const row = draft.row(message.id)
  if (row === null || isTerminal(row.state)) throw new Error('bug: an adopted job is not there')
  // Not held as other early messages are: a producer that publishes many at once would fill the prefetch.
  if (row.state === 'scheduled' && !isClaimable(row, terms))
    return { verdict: 'scheduled', job: draft.job(row) }
  return claimNext(draft, message, terms, row)
}

function exhaust(
  draft: Draft,
  message: ClaimedMessage,
  row: KeptRow,
  { skipped }: Extract<Arrival, { do: 'exhaust' }>,
  now: number,
): ClaimResult {
  const discard = exhausting(draft.job(row), skipped, reportedBy(message), now)
  return { verdict: 'exhausted', ...discardJob(draft, row, now, discard) }
}

function reportedBy(message: ClaimedMessage): ReportedError | null {
  return message.reportedError?.() ?? null
}
