/** Finds jobs by a filter. */
import { isInScope } from '../../job/queue-scope.ts'
import type { JobFilter } from '../../job/search/filter.ts'
import type { Counted, Found, SearchPage } from '../../ledger/search.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { requireQueueInScope } from '../scope.ts'

export type { FoundJob, JobOrder, SearchPage } from '../../ledger/search.ts'

/** Matches are counted up to here where their number is not kept. */
const MAX_COUNTED = 10_000

/** A page of jobs. `total`: of all pages; `isBound`: there are more. */
export interface SearchResult extends Found {
  total: Counted
}

/**
 * A page of the jobs that match, with their number. Throws 403 if the filter names a queue that the caller's
 * key is not for; without a queue it finds those of the key's.
 */
export async function searchJobs(
  { ledger }: Pick<Deps, 'ledger'>,
  filter: JobFilter,
  page: SearchPage,
  context: RequestContext,
): Promise<SearchResult> {
  const queues = ownQueues(ledger, filter, context)
  if (queues === null) {
    const total = { count: 0, isBound: false }
    return { jobs: [], next: null, isEarly: false, searched: null, total }
  }
  const scoped = { ...filter, queues }
  const found = await ledger.read.search.page(scoped, page)
  const told = toldBy(found, page)
  if (told !== null) return { ...found, total: told }
  const { count, isBound } = await ledger.read.search.count(scoped, MAX_COUNTED)
  return { ...found, total: { count: Math.max(count, shownBy(found, page)), isBound } }
}

/** How many jobs there are at least by this page; one behind the end tells nothing. */
function shownBy({ jobs }: Found, { offset }: SearchPage): number {
  return jobs.length > 0 ? offset + jobs.length : 0
}

/** The number of jobs if the page has the last one, or has looked at as many as a count would; else null. */
function toldBy(found: Found, page: SearchPage): Counted | null {
  const { jobs, next, isEarly, searched } = found
  if (page.after !== null || page.limit === 0) return null
  const isLast = next === null && searched === null && (jobs.length > 0 || page.offset === 0)
  return isEarly || isLast ? { count: shownBy(found, page), isBound: isEarly } : null
}

/** The queues to search; null: none of those that the caller's key is for is known. */
export function ownQueues(
  ledger: Deps['ledger'],
  { queues }: JobFilter,
  context: RequestContext,
): readonly string[] | null {
  const { queues: scope } = context
  if (scope === undefined) return queues
  for (const queue of queues) requireQueueInScope(context, queue, 'queue')
  if (queues.length > 0) return queues
  const own = ledger.known.queues().filter(({ name }) => isInScope(scope, name))
  return own.length > 0 ? own.map(({ name }) => name) : null
}
