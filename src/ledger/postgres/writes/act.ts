/** What an operator does to jobs, one after another in one write. */
import { historyLine } from '../../../job/history.ts'
import { isErased, isTerminal, type JobRow, type JobState } from '../../../job/job.ts'
import { isStale } from '../../../job/stale.ts'
import { refusalOf, type Steering } from '../../../job/steer.ts'
import { erased, revived } from '../../../job/transitions/end.ts'
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { Acted, ActTerms, Refused } from '../../bulk.ts'
import type { Purged, PurgeTerms } from '../../ledger.ts'
import type { Draft } from '../group/draft.ts'
import { TakenBack } from '../group/groups.ts'
import { cancelJob } from './end.ts'

/** Characters of the rows that one write returns: all of them are in memory at once. */
const MAX_TEXT = 16 * 1024 * 1024

/** Acts on the first of the jobs, until the time is up. */
export function actOnSome(
  draft: Draft,
  ids: readonly string[],
  steering: Steering,
  terms: ActTerms,
): Acted[] {
  const until = performance.now() + terms.maxMs
  const acted: Acted[] = []
  let text = 0
  for (const id of ids) {
    const one = actOn(draft, id, steering, terms)
    acted.push(one)
    text += textOf(one)
    if (performance.now() >= until || text >= MAX_TEXT) break
  }
  return acted
}

/** Acts on all of the jobs, or takes everything back and resolves with those that were refused. */
export function actOnAll(
  draft: Draft,
  ids: readonly string[],
  steering: Steering,
  terms: ActTerms,
): Acted[] {
  const acted = ids.map((id) => actOn(draft, id, steering, terms))
  const refused = acted.filter(({ did }) => did === null)
  if (refused.length > 0) throw new TakenBack(refused)
  return acted
}

function textOf(acted: Acted): number {
  if (acted.did === null) return 0
  const { envelope, errors } = acted.did === 'delete' ? acted.before : acted.job
  return envelope.length + (errors?.length ?? 0)
}

function actOn(draft: Draft, id: string, steering: Steering, terms: ActTerms): Acted {
  const row = draft.row(id)
  const job = row && draft.job(row)
  const reason = refusalOf(steering, job, job?.carry?.retriedAs, terms.wall)
  if (row === null || job === null || reason !== null)
    return refused(id, reason ?? 'not_found', row)
  switch (steering.action) {
    case 'cancel': {
      const done = cancelJob(draft, id, terms.now, terms.cause)
      return isStale(done) ? refused(id, 'not_found', row) : { did: 'cancel', ...done }
    }
    case 'retry':
      return { did: 'retry', job: revive(draft, row, terms), before: job }
    case 'delete':
      erase(draft, row, terms.now)
      return { did: 'delete', before: job }
  }
}

function refused(id: string, reason: Refused['reason'], row: KeptRow | null): Refused {
  const isKnown = row !== null && reason !== 'not_found' && !isErased(row.state)
  return { did: null, id, reason, state: isKnown ? (row.state as JobState) : null }
}

function revive(draft: Draft, row: KeptRow, { now, cause }: ActTerms): JobRow {
  const attempt = row.state === 'retryable' ? row.attempt : 0
  const line = historyLine(now, 'available', attempt, null, cause)
  const after = draft.change(row, revived(row, now, draft.nextNonce(), line))
  if (row.deadLetterCopied) draft.staleCopy(row.queue)
  return draft.job(after)
}

/** The row stays for a while, so that late job messages are recognized and dropped. */
function erase(draft: Draft, row: KeptRow, now: number): void {
  draft.change(row, erased(now))
  if (row.deadLetterCopied) draft.staleCopy(row.queue)
}

/** See `Ledger.purge`. */
export function purgeOne(draft: Draft, id: string, terms: PurgeTerms): Purged | null {
  const { states, now, cause } = terms
  const row = draft.row(id)
  if (row === null || !states.includes(row.state as JobState)) return null
  if (isTerminal(row.state)) {
    const job = draft.job(row)
    erase(draft, row, now)
    return { job, cancelled: null }
  }
  const cancelled = cancelJob(draft, id, now, cause)
  const after = draft.row(id)
  if (isStale(cancelled) || after === null) return null
  erase(draft, after, now)
  return { job: cancelled.job, cancelled, isKept: false }
}
