/** What answers tell of actions on many jobs. */
import { errorObject } from '../../../errors.ts'
import { jobDocument, timestamp } from '../../../job/document.ts'
import type { Acted, BulkOperation } from '../../../operations/steer/bulk.ts'
import { DONE, refusedOf } from '../../../operations/steer/bulk.ts'
import type { BulkRequest } from '../../../operations/steer/bulk-request.ts'
import type { PushedMany } from '../../../operations/steer/push-many.ts'
import { refusalText } from '../../../operations/steer/steer.ts'

const MAX_ERRORS = 100
/** In words of OJS bulk operations: nobody is told more of jobs of other queues than that there are none. */
type Counts = Pick<BulkOperation, 'action' | 'matched' | 'succeeded' | 'failed' | 'refused'>

/** An operation, for those who watch it. */
export function operationDocument(operation: BulkOperation): Record<string, unknown> {
  const { id, state, asked, limit, expected, cause, createdAt, updatedAt, endedAt } = operation
  return {
    id,
    state,
    filter: JSON.parse(asked) as unknown,
    states: operation.steering.states,
    ...(limit !== null && { limit }),
    expected: expected.count,
    ...(expected.isBound && { expected_is_lower_bound: true }),
    ...countsDocument(operation),
    has_more: operation.hasMore,
    ...(cause.principal !== undefined && { started_by: cause.principal }),
    request_id: cause.requestId,
    created_at: timestamp(createdAt),
    updated_at: timestamp(updatedAt),
    ...(endedAt !== null && { ended_at: timestamp(endedAt) }),
  }
}

/** The answer of the Admin API (OJS admin API), by filter. */
export function adminAnswer(operation: BulkOperation): object {
  const { id, state, hasMore } = operation
  return { ...countsDocument(operation), has_more: hasMore, operation_id: id, state }
}

/** The same, by ids. */
export function adminIdsAnswer({ ids, how }: BulkRequest, acted: readonly Acted[]): object {
  return { ...countsDocument(countsOf(ids ?? [], how.action, acted)), has_more: false }
}

function countsDocument({ action, matched, succeeded, failed, refused }: Counts): object {
  const shown = refused.slice(0, MAX_ERRORS)
  return {
    action,
    ...{ matched, succeeded, failed, [DONE[action]]: succeeded },
    errors: shown.map(({ id, reason }) => ({
      job_id: id,
      error: refusalText(action, { reason }),
      reason,
    })),
    ...(failed > shown.length && { errors_truncated: true }),
  }
}

function countsOf(
  ids: readonly string[],
  action: BulkOperation['action'],
  acted: readonly Acted[],
): Counts {
  const refused = refusedOf(acted)
  const succeeded = ids.length - refused.length
  return { action, matched: ids.length, succeeded, failed: refused.length, refused }
}

/** The answer of the data plane (OJS bulk operations), by filter: its counts alone. */
export function dataAnswer(operation: BulkOperation): object {
  const { action, matched, succeeded, failed, hasMore, id, state } = operation
  const counts = { [DONE[action]]: succeeded, skipped: failed, failed }
  return { total_matched: matched, ...counts, has_more: hasMore, operation_id: id, state }
}

/** The same with a result for each job. `isUndone`: nothing was changed, because some were refused. */
export function dataItemsAnswer(
  ids: readonly string[],
  action: BulkOperation['action'],
  { acted, isUndone }: { acted: readonly Acted[]; isUndone: boolean },
): { status: number; body: object } {
  const refused = new Map(refusedOf(acted).map(({ id, reason }) => [id, reason]))
  const done = isUndone ? 0 : acted.filter(({ did }) => did !== null).length
  const items = ids.map((id, index) => {
    const isDone = !isUndone && acted[index]?.did !== null
    const reason = refused.get(id) ?? 'rolled_back'
    return isDone
      ? { index, job_id: id, status: DONE[action] }
      : { index, job_id: id, status: 'skipped', reason }
  })
  const skipped = ids.length - done
  const counts = { total_matched: ids.length, [DONE[action]]: done, skipped, failed: skipped }
  return { status: statusOf(done, skipped), body: { ...counts, items, has_more: false } }
}

function statusOf(done: number, skipped: number): number {
  if (skipped === 0) return 200
  return done === 0 ? 422 : 207
}

export function dryRunDocument(
  { how }: BulkRequest,
  found: { count: number; isBound: boolean; sample: readonly string[] },
): object {
  return {
    action: how.action,
    dry_run: true,
    matched: found.count,
    ...(found.isBound && { matched_is_lower_bound: true }),
    states: how.states,
    sample: found.sample,
  }
}

/** The answer of a bulk enqueue, as JSON text: what producers sent comes back as it was. */
export function manyDocument({ items, atomicity }: PushedMany): { status: number; text: string } {
  const texts = items.map((item, index) =>
    item.status === 'failed'
      ? JSON.stringify({ index, status: 'failed', error: errorObject(item.error) })
      : `{"index":${index},"status":"${item.status}","job":${jobDocument(item.job)}}`,
  )
  const count = (status: string) => items.filter((item) => item.status === status).length
  const [failed, created] = [count('failed'), count('created')]
  const total = items.length
  const counts = { total, succeeded: total - failed, failed, atomicity }
  const text = `${JSON.stringify(counts).slice(0, -1)},"items":[${texts.join(',')}]}`
  if (failed > 0) return { status: failed === total ? 422 : 207, text }
  return { status: created > 0 ? 201 : 200, text }
}
