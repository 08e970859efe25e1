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
    return { jobs: [], next: null, searched: null, total: { count: 0, isBound: false } }
  }
  const scoped = { ...filter, queues }
  const found = await ledger.read.search.page(scoped, page)
  const total = await ledger.read.search.count(scoped, MAX_COUNTED)
  // A page behind the end tells nothing of how many there are.
  const shown = found.jobs.length > 0 ? page.offset + found.jobs.length : 0
  return { ...found, total: { ...total, count: Math.max(total.count, shown) } }
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
