/** What an operator does to a job. */
import type { JobRow } from '../../../job/job.ts'
import { isStale } from '../../../job/stale.ts'
import { refusalOf, type Steering } from '../../../job/steer.ts'
import type { Acted, ActTerms } from '../../bulk.ts'
import { refused } from '../../writes/acting.ts'
import { toJobRow } from '../sql/rows.ts'
import type { Store } from '../state/store.ts'
import { cancelJob } from '../writes/cancel.ts'
import { eraseJob, reviveJob } from '../writes/dead-letters.ts'

/** In a write that is protected. */
export function actOn(store: Store, id: string, steering: Steering, terms: ActTerms): Acted {
  const row = toJobRow(store.statements.find.get(id))
  const reason = refusalOf(steering, row, {
    retriedAs: row?.carry?.retriedAs,
    isStep: () => store.workflows.statements.isStep.get(id) !== undefined,
    wall: terms.wall,
  })
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

function cancel(store: Store, row: JobRow, { now, cause }: ActTerms): Acted {
  const done = cancelJob(store, row.id, now, cause)
  return isStale(done) ? refused(row.id, 'not_found', row) : { did: 'cancel', ...done }
}

function retry(store: Store, row: JobRow, { now, cause }: ActTerms): Acted {
  const job = reviveJob(store, row, now, cause)
  if (!('outcome' in job)) return { did: 'retry', job, before: row }
  const { outcome: _, ...rival } = job
  return { ...refused(row.id, 'duplicate', row), rival }
}

function erase(store: Store, row: JobRow, { now }: ActTerms): Acted {
  eraseJob(store, row, now)
  return { did: 'delete', before: row }
}
