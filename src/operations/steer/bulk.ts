/** Retry, cancel and delete of many jobs: by ids at once, by filter as an operation in the background. */
import { OjsError } from '../../errors.ts'
import { isInScope, isScopeWithin } from '../../job/queue-scope.ts'
import type { JobFilter } from '../../job/search/filter.ts'
import type { JobAction, Steering } from '../../job/steer.ts'
import type { Acted, BulkOperation, Refused } from '../../ledger/bulk.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { ownQueues } from '../search/search.ts'
import { actTerms, followMany } from './steer.ts'

export type { Acted, BulkOperation } from '../../ledger/bulk.ts'

/** Matches are counted up to here before an operation begins. */
const MAX_EXPECTED = 100_000
/** How long a request waits for the end of its operation. */
const PATIENCE_MS = 30_000
const SAMPLE = 10
/** Of all operations, a thousand and some, so many are in memory at once. */
const LISTED = 100

type Scoped = Pick<RequestContext, 'queues'>

/** The names of what an action did, in answers and events. */
export const DONE = { retry: 'retried', cancel: 'cancelled', delete: 'deleted' } as const

/** An action on the jobs that match `filter`. `asked`: as the client wrote it, for those who watch. */
export interface ByFilter {
  how: Steering
  filter: JobFilter
  asked: unknown
  limit: number | null
}

/**
 * Acts on the jobs in order. With `isAtomic` on all of them or none: `undone` if one was refused, and only
 * those are returned.
 */
export async function actOnIds(
  deps: Deps,
  ids: readonly string[],
  how: Steering,
  isAtomic: boolean,
  context: RequestContext,
): Promise<{ acted: Acted[]; isUndone: boolean }> {
  const acted: Acted[] = []
  while (acted.length < ids.length) {
    const terms = { ...actTerms(deps, context), isAtomic }
    const some = await deps.ledger.bulk.act(ids.slice(acted.length), how, terms)
    if (isAtomic && some.length > 0 && some.every(({ did }) => did === null)) {
      return { acted: some, isUndone: true }
    }
    followMany(deps, how.action, some, context.requestId)
    acted.push(...some)
  }
  const refused = acted.filter(({ did }) => did === null).length
  const counts = { matched: ids.length, succeeded: ids.length - refused, failed: refused }
  tellCompleted(deps, how.action, { id: null, ...counts }, context.requestId)
  return { acted, isUndone: false }
}

/** Up to `atMost` ids of jobs that match, oldest first, and whether there are more. */
export async function matchingIds(
  deps: Deps,
  by: ByFilter,
  atMost: number,
  context: RequestContext,
): Promise<{ ids: string[]; isMore: boolean }> {
  const filter = scopedFilter(deps, by, context)
  const ids: string[] = []
  if (filter === null) return { ids, isMore: false }
  for (let after = null; ; ) {
    const { found, next } = await deps.ledger.read.search.ids(
      filter,
      after,
      atMost + 1 - ids.length,
    )
    ids.push(...found.map(({ id }) => id))
    if (ids.length > atMost) return { ids: ids.slice(0, atMost), isMore: true }
    if (next === null) return { ids, isMore: false }
    after = next
  }
}

/** What an action would do: how many jobs match, and some of them, oldest first. */
export async function dryRun(
  deps: Deps,
  by: ByFilter,
  context: RequestContext,
): Promise<{ count: number; isBound: boolean; sample: string[] }> {
  const filter = scopedFilter(deps, by, context)
  if (filter === null) return { count: 0, isBound: false, sample: [] }
  const { count, isBound } = await countOf(deps, filter, by)
  const { ids } = await matchingIds(deps, by, SAMPLE, context)
  return { count: Math.max(count, ids.length), isBound, sample: ids }
}

/**
 * Begins an operation in the background. It acts on the jobs that match now, oldest first, on each at most
 * once, and goes on after a restart. Throws 429 while a hundred operations run.
 */
export async function beginOperation(
  deps: Deps,
  by: ByFilter,
  context: RequestContext,
): Promise<BulkOperation> {
  const { asked, limit, how } = by
  const now = deps.clock.now()
  const filter = scopedFilter(deps, by, context) ?? NO_JOB(by.filter)
  const begun = {
    ...{ id: deps.newId(), action: how.action, asked: JSON.stringify(asked), filter, limit },
    steering: { ...how, endedUntil: now },
    expected: await countOf(deps, filter, by),
    cause: actTerms(deps, context).cause,
    createdAt: now,
  }
  if (!(await deps.ledger.bulk.begin(begun))) {
    throw new OjsError('rate_limited', 'Too many operations run: wait for one, or stop it.', {
      details: { reason: 'too_many_operations' },
    })
  }
  deps.events.emit({ type: 'bulk.begun', action: how.action })
  deps.logger.info(
    { operation: begun.id, action: how.action, filter: asked, ...begun.cause },
    'operation on many jobs begins',
  )
  return (await deps.ledger.read.bulk.find(begun.id)) ?? missing(begun.id)
}

/** Runs an operation and waits for its end, but not longer than half a minute; then it goes on by itself. */
export async function runToEnd(
  deps: Deps,
  by: ByFilter,
  context: RequestContext,
): Promise<BulkOperation> {
  const { id } = await beginOperation(deps, by, context)
  const ended = deps.bulk.untilEnded(id, PATIENCE_MS)
  deps.bulk.began()
  await ended
  return (await deps.ledger.read.bulk.find(id)) ?? missing(id)
}

/** Stops an operation after the page that it is at. Null: unknown to the caller. */
export async function stopOperation(
  deps: Deps,
  id: string,
  context: RequestContext,
): Promise<BulkOperation | null> {
  if ((await findOperation(deps, id, context)) === null) return null
  const { requestId, principal } = context
  const now = deps.clock.now()
  const operation = await deps.ledger.bulk.stop(id, now)
  // A repeated stop changes nothing.
  if (operation?.state === 'stopped' && operation.updatedAt === now) {
    deps.events.emit({ type: 'bulk.stopped', action: operation.action })
    deps.logger.info({ operation: id, requestId, principal }, 'operation on many jobs stopped')
    deps.bulk.ended(id)
  }
  return operation
}

/** Null: unknown, or not the caller's to know. */
export async function findOperation(
  { ledger }: Pick<Deps, 'ledger'>,
  id: string,
  context: Scoped,
): Promise<BulkOperation | null> {
  const operation = await ledger.read.bulk.find(id)
  return operation !== null && isOwn(operation, context) ? operation : null
}

/** Newest first; for an API key of some queues without those of others. */
export async function listOperations(
  { ledger }: Pick<Deps, 'ledger'>,
  { limit, offset }: { limit: number; offset: number },
  context: Scoped,
): ReturnType<Deps['ledger']['read']['bulk']['list']> {
  if (context.queues === undefined) return await ledger.read.bulk.list({ limit, offset })
  const operations: BulkOperation[] = []
  const own = new Set<string>()
  for await (const operation of allOperations(ledger)) {
    if (!isOwn(operation, context) || own.has(operation.id)) continue
    if (own.size >= offset && operations.length < limit) operations.push(operation)
    own.add(operation.id)
  }
  return { operations, total: own.size }
}

/** Some at a time, because their filters may be long; one that begins meanwhile shows another twice. */
async function* allOperations(ledger: Deps['ledger']): AsyncGenerator<BulkOperation> {
  for (let offset = 0; ; offset += LISTED) {
    const { operations, total } = await ledger.read.bulk.list({ limit: LISTED, offset })
    yield* operations
    if (offset + LISTED >= total) return
  }
}

/** Whether it can touch no job but of the queues that the caller's key is for, whoever began it. */
function isOwn({ filter, steering }: BulkOperation, { queues: scope }: Scoped): boolean {
  if (scope === undefined) return true
  const { queues } = filter
  if (queues.length > 0 && queues.every((queue) => isInScope(scope, queue))) return true
  return steering.scope !== null && isScopeWithin(scope, steering.scope)
}

/** The event and the log line about the end of an action on many jobs. */
export function tellCompleted(
  deps: Deps,
  action: JobAction,
  of: Pick<BulkOperation, 'matched' | 'succeeded' | 'failed'> & { id: string | null },
  requestId: string | undefined,
): void {
  const { id, matched, succeeded, failed } = of
  const data = { total: matched, [DONE[action]]: succeeded, skipped: failed }
  deps.events.emit({ type: `bulk.${action}.completed`, bulk: { id, data }, requestId })
}

export function refusedOf(acted: readonly Acted[]): Refused[] {
  return acted.filter((one) => one.did === null)
}

/** The filter with the queues of the caller's key, and without jobs that come later; null: no job matches. */
function scopedFilter(
  { ledger, clock }: Pick<Deps, 'ledger' | 'clock'>,
  { filter, how }: ByFilter,
  context: RequestContext,
): JobFilter | null {
  const queues = ownQueues(ledger, filter, context)
  if (queues === null) return null
  const { from, until } = filter.created
  const later = clock.now() + 1
  const created = { from, until: Math.min(until ?? later, later) }
  const states = filter.states.length > 0 ? filter.states : how.states
  const isDeadLetter = filter.isDeadLetter || how.deadLettersOnly
  return { ...filter, queues, states, created, isDeadLetter }
}

/** How many match now. Without the time of the request, which no kept count knows. */
function countOf({ ledger }: Pick<Deps, 'ledger'>, filter: JobFilter, by: ByFilter) {
  return ledger.read.search.count({ ...filter, created: by.filter.created }, MAX_EXPECTED)
}

const NO_JOB = (filter: JobFilter): JobFilter => ({ ...filter, ids: [''] })

function missing(id: string): never {
  throw new Error(`operation ${id} is gone`)
}
