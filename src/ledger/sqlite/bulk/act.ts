/** What an operator does to jobs, one after another in one write. */
import { isErased, type JobRow, type JobState } from '../../../job/job.ts'
import { isStale } from '../../../job/stale.ts'
import { refusalOf, type Steering } from '../../../job/steer.ts'
import type { Acted, ActTerms, Refused } from '../../bulk.ts'
import { TakenBack } from '../commit/group-commit.ts'
import { toJobRow } from '../sql/rows.ts'
import type { Store } from '../state/store.ts'
import { cancelJob } from '../writes/cancel.ts'
import { eraseJob, reviveJob } from '../writes/dead-letters.ts'

/** Characters of the rows that one write returns: all of them are in memory at once. */
const MAX_TEXT = 16 * 1024 * 1024

/** Acts on the first of the jobs, until the time is up. Inside a write that is protected. */
export function actOnSome(
  store: Store,
  ids: readonly string[],
  steering: Steering,
  terms: ActTerms,
): Acted[] {
  const until = performance.now() + terms.maxMs
  const acted: Acted[] = []
  let text = 0
  for (const id of ids) {
    const one = actOn(store, id, steering, terms)
    acted.push(one)
    text += textOf(one)
    if (performance.now() >= until || text >= MAX_TEXT) break
  }
  return acted
}

/** Acts on all of the jobs, or takes everything back and resolves with those that were refused. */
export function actOnAll(
  store: Store,
  ids: readonly string[],
  steering: Steering,
  terms: ActTerms,
): Acted[] {
  const acted = ids.map((id) => actOn(store, id, steering, terms))
  const refused = acted.filter(({ did }) => did === null)
  if (refused.length > 0) throw new TakenBack(refused)
  return acted
}

function textOf(acted: Acted): number {
  if (acted.did === null) return 0
  const { envelope, errors } = acted.did === 'delete' ? acted.before : acted.job
  return envelope.length + (errors?.length ?? 0)
}

function actOn(store: Store, id: string, steering: Steering, terms: ActTerms): Acted {
  const row = toJobRow(store.statements.find.get(id))
  const reason = refusalOf(steering, row, row?.carry?.retriedAs, terms.wall)
  if (row === null || reason !== null) return refused(id, reason ?? 'not_found', row)
  switch (steering.action) {
    case 'cancel':
      return cancel(store, row, terms)
    case 'retry':
      return retry(store, row, terms)
    case 'delete':
      return erase(store, row, terms)
  }
}

function refused(id: string, reason: Refused['reason'], row: JobRow | null): Refused {
  const isKnown = row !== null && reason !== 'not_found' && !isErased(row.state)
  return { did: null, id, reason, state: isKnown ? (row.state as JobState) : null }
}

function cancel(store: Store, row: JobRow, { now, cause }: ActTerms): Acted {
  const done = cancelJob(store, row.id, now, cause)
  return isStale(done) ? refused(row.id, 'not_found', row) : { did: 'cancel', ...done }
}

function retry(store: Store, row: JobRow, { now, cause }: ActTerms): Acted {
  // Later steps are given its result, which a second run would take away.
  if (row.state === 'completed' && isStep(store, row)) return refused(row.id, 'workflow_step', row)
  const job = reviveJob(store, row, now, cause)
  if (!('outcome' in job)) return { did: 'retry', job, before: row }
  const { outcome: _, ...rival } = job
  return { ...refused(row.id, 'duplicate', row), rival }
}

function erase(store: Store, row: JobRow, { now }: ActTerms): Acted {
  // Kept as long as its workflow, as retention does. A workflow has what it needs of a dead letter.
  if (!row.isDeadLetter && isStep(store, row)) return refused(row.id, 'workflow_step', row)
  eraseJob(store, row, now)
  return { did: 'delete', before: row }
}

function isStep({ workflows }: Store, { id }: JobRow): boolean {
  return workflows.statements.isStep.get(id) !== undefined
}
