/** Operations on many jobs, as they begin, go on page by page, and end. */
import type { Acted, ActTerms, BulkLedger, BulkOperation, NewOperation } from '../bulk.ts'
import type { Place } from '../search.ts'
import { actOnSome } from './acting.ts'

export const MAX_RUNNING = 100
/** Ended operations that are kept. */
export const MAX_ENDED = 1_000
const MAX_REFUSED = 100

type Page = Parameters<BulkLedger['advance']>[1]

/** An operation as it begins. */
export function begun(operation: NewOperation): BulkOperation {
  return {
    ...operation,
    ...{ state: 'running', place: null, matched: 0, succeeded: 0, failed: 0, refused: [] },
    ...{ hasMore: false, updatedAt: operation.createdAt, endedAt: null },
  }
}

/** See `BulkLedger.advance`. `act`: on one job. */
export function advanced(
  before: BulkOperation | null,
  page: Page,
  terms: Pick<ActTerms, 'maxMs' | 'now'>,
  act: (id: string, before: BulkOperation) => Acted,
): { operation: BulkOperation; acted: Acted[] } | null {
  const isAtPlace = before !== null && isSame(before.place, page.from)
  if (before?.state !== 'running' || !isAtPlace) return null
  const left = before.limit === null ? page.found.length : before.limit - before.matched
  const found = page.found.slice(0, left)
  const ids = found.map(({ id }) => id)
  const acted = actOnSome(ids, terms, (id) => act(id, before))
  const after = moved(before, { ...page, found }, acted, page.found.length > left)
  return { operation: dated(after, terms.now), acted }
}

/** See `BulkLedger.stop`. Null: it has ended already. */
export function stopped(operation: BulkOperation, now: number): BulkOperation | null {
  if (operation.state !== 'running') return null
  return dated({ ...operation, state: 'stopped', hasMore: true }, now)
}

function dated(operation: BulkOperation, now: number): BulkOperation {
  return { ...operation, updatedAt: now, endedAt: operation.state === 'running' ? null : now }
}

function isSame(one: Place | null, other: Place | null): boolean {
  return one?.[0] === other?.[0] && one?.[1] === other?.[1]
}

/**
 * The operation behind the jobs that were acted on; those that did not match when it began are in no count. `isCut`: its
 * limit left some of the page.
 */
function moved(
  before: BulkOperation,
  { found, next }: Page,
  acted: readonly Acted[],
  isCut: boolean,
): BulkOperation {
  const isAll = acted.length === found.length
  const last = found[acted.length - 1]
  const met = acted.filter((one) => one.did !== null || one.reason !== 'ended_later')
  const refused = met.filter((one) => one.did === null)
  const matched = before.matched + met.length
  const isAtLimit = before.limit !== null && matched >= before.limit
  const isOver = isAtLimit || (isAll && next === null)
  return {
    ...before,
    state: isOver ? 'completed' : 'running',
    place: isAll && next !== null && !isCut ? next : (last?.place ?? before.place),
    matched,
    succeeded: before.succeeded + met.length - refused.length,
    failed: before.failed + refused.length,
    refused: [...before.refused, ...refused.map(({ id, reason }) => ({ id, reason }))].slice(
      0,
      MAX_REFUSED,
    ),
    hasMore: isOver && (isCut || !isAll || next !== null),
  }
}

/** What is kept of an operation beside its own columns, as JSON text. */
export function termsOf({ action, asked, filter, steering, limit, expected, cause }: NewOperation) {
  return JSON.stringify({ action, asked, filter, steering, limit, expected, cause })
}
