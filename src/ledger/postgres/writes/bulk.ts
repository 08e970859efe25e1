/** Actions on many jobs: by ids, and operations by filter. */
import type { Steering } from '../../../job/steer.ts'
import type { Acted, ActTerms, BulkLedger, BulkOperation, NewOperation } from '../../bulk.ts'
import { actOnAll, actOnSome, refused } from '../../writes/acting.ts'
import { advanced, begun, MAX_ENDED, MAX_RUNNING, stopped } from '../../writes/operations.ts'
import type { Draft } from '../group/draft.ts'
import { OPERATIONS, toOperation, toRow } from '../group/operations.ts'
import { firstOf, sizesOf } from '../group/sizes.ts'
import { lookUpLines } from '../keyed/lines.ts'
import { actOn } from './act.ts'
import { lookUpRivals } from './unique.ts'

type Page = Parameters<BulkLedger['advance']>[1]

/** See `BulkLedger.act`. */
export function actOnMany(
  draft: Draft,
  schema: string,
  ...[ids, steering, terms]: Parameters<BulkLedger['act']>
): Acted[] {
  const some = terms.isAtomic ? ids : fitting(draft, schema, ids)
  lookUp(draft, some, steering, terms)
  return draft.inParts((part) => {
    const act = (id: string) => part(() => actOn(draft, id, steering, terms)) ?? untouched(id)
    return terms.isAtomic ? actOnAll(ids, act) : actOnSome(some, terms, act)
  })
}

const untouched = (id: string) => refused(id, 'not_found', null)

/** Loads at once what else the action reads for one job after the other. */
function lookUp(
  draft: Draft,
  ids: readonly string[],
  { action }: Pick<Steering, 'action'>,
  terms: ActTerms,
): void {
  if (action === 'retry') lookUpRivals(draft, ids, terms)
  lookUpLines(draft, ids)
}

/** As many of the first jobs as are in memory at once; their texts are loaded together. */
function fitting(draft: Draft, schema: string, ids: readonly string[]): string[] {
  const some = firstOf(ids, draft.ask(sizesOf(schema, ids)))
  draft.jobs(draft.rows(some))
  return some
}

/** See `BulkLedger.begin`. In a group of its own. */
export function begin(draft: Draft, schema: string, operation: NewOperation): boolean {
  const table = `${schema}.bulk_operations`
  const running = `SELECT count(*) AS n FROM ${table} WHERE ended_at IS NULL`
  if (Number(draft.ask({ text: running })[0]?.['n']) >= MAX_RUNNING) return false
  if (find(draft, operation.id) !== null) throw new Error(`there is an operation ${operation.id}`)
  draft.putSide(OPERATIONS, operation.id, toRow(begun(operation)))
  const text = `DELETE FROM ${table} WHERE seq IN (SELECT seq FROM ${table}
    WHERE ended_at IS NOT NULL ORDER BY seq DESC OFFSET ${MAX_ENDED})`
  draft.changes.store({ text })
  return true
}

/** See `BulkLedger.advance`. */
export function advance(
  draft: Draft,
  schema: string,
  id: string,
  page: Page,
  terms: ActTerms,
): { operation: BulkOperation; acted: Acted[] } | null {
  const before = find(draft, id)
  if (before === null) return null
  const some = fitting(draft, schema, idsOf(page))
  lookUp(draft, some, before.steering, terms)
  const found = page.found.slice(0, some.length)
  const isCut = found.length < page.found.length
  const place = isCut ? { ...page, found, next: found.at(-1)?.place ?? null } : page
  const done = draft.inParts((part) =>
    advanced(
      before,
      place,
      terms,
      (one, { steering }) => part(() => actOn(draft, one, steering, terms)) ?? untouched(one),
    ),
  )
  if (done !== null) draft.putSide(OPERATIONS, id, toRow(done.operation))
  return done
}

function idsOf({ found }: Page): string[] {
  return found.map(({ id }) => id)
}

/** See `BulkLedger.stop`. */
export function stop(draft: Draft, id: string, now: number): BulkOperation | null {
  const operation = find(draft, id)
  const after = operation && stopped(operation, now)
  if (after !== null) draft.putSide(OPERATIONS, id, toRow(after))
  return after ?? operation
}

function find(draft: Draft, id: string): BulkOperation | null {
  const row = draft.side(OPERATIONS, id)
  return row && toOperation(id, row)
}
