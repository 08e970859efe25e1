/** Dead letters: found, counted, retried with a new generation, deleted. */
import { notFound } from '../../errors.ts'
import type { JobRow } from '../../job/job.ts'
import { ANY_JOB, type JobFilter } from '../../job/search/filter.ts'
import type { DeadLetterStats } from '../../ledger/dead-letters.ts'
import type { SearchPage } from '../../ledger/search.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { ownQueues, type SearchResult, searchJobs } from '../search/search.ts'
import { deleteJob, ofDeadLetters, retryJob } from '../steer/steer.ts'

/** Lists the dead letters that match, newest first (seed 001 §12.1). A pure read. */
export function listDeadLetters(
  deps: Pick<Deps, 'ledger'>,
  filter: JobFilter,
  place: Pick<SearchPage, 'after' | 'offset' | 'limit' | 'isWhole'>,
  context: RequestContext,
): Promise<SearchResult> {
  const page = { order: 'discarded_at', isAscending: false, ...place } as const
  return searchJobs(deps, { ...filter, isDeadLetter: true }, page, context)
}

/** One dead letter. Throws 404. */
export async function findDeadLetter(
  deps: Pick<Deps, 'ledger'>,
  id: string,
  context: RequestContext,
): Promise<SearchResult['jobs'][number]> {
  const place = { after: null, offset: 0, limit: 1, isWhole: true }
  const { jobs } = await listDeadLetters(deps, { ...ANY_JOB, ids: [id] }, place, context)
  const [job] = jobs
  if (job === undefined) throw notFound('dead_letter_job', id)
  return job
}

/**
 * Re-enqueues a dead letter (seed 001 §12.2): `available`, attempt 0, generation + 1. Answers from its
 * commit. Throws 404; 409 when `expires_at` has passed, since the job would be discarded again at once, or
 * when another job has its `unique` key by now; 503.
 */
export async function retryDeadLetter(
  deps: Deps,
  id: string,
  context: RequestContext,
): Promise<JobRow> {
  const { job } = await retryJob(deps, id, ofDeadLetters('retry', context), context)
  return job
}

/** Removes a dead letter for good (seed 001 §12.3): GET answers 404 from then on. Throws 404, 503. */
export function deleteDeadLetter(deps: Deps, id: string, context: RequestContext): Promise<void> {
  return deleteJob(deps, id, ofDeadLetters('delete', context), context)
}

/** How many dead letters there are, by queue, type and error. `asked`: of these queues only; empty: of all. Throws 403. */
export async function deadLetterStats(
  { ledger }: Pick<Deps, 'ledger'>,
  asked: readonly string[],
  context: RequestContext,
): Promise<DeadLetterStats> {
  const queues = ownQueues(ledger, { ...ANY_JOB, queues: asked }, context)
  return await ledger.read.deadLetterStats(queues ?? [''])
}
