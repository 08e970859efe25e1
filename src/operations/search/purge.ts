/** Purge of a queue: jobs of some states are removed, those that wait are cancelled before. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { queueRefusal } from '../../broker/broker-errors.ts'
import { invalidField, OjsError } from '../../errors.ts'
import { isTerminal, type JobState } from '../../job/job.ts'
import { ANY_JOB, type JobFilter } from '../../job/search/filter.ts'
import type { Purged } from '../../ledger/ledger.ts'
import type { Place } from '../../ledger/search.ts'
import { type PurgeRequest, parsePurge } from '../../schemas/requests/admin.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { followCancel } from '../job-end.ts'
import { instantOf } from './parse-filter.ts'

/** Jobs that are purged in one commit: some 5 ms. */
const PAGE = 50
/** Of one request; the answer says that there are more. */
const MAX_PURGED = 50_000
/** How far a dry run counts. */
const MAX_COUNTED = 100_000

export interface PurgeResult {
  states: readonly JobState[]
  purged: number
  /** Still there, because their workflows need them; those that waited are cancelled. */
  kept: number
  hasMore: boolean
}

export interface PurgeEstimate {
  states: readonly JobState[]
  matched: number
  isBound: boolean
}

/** What a request has done so far. `changed`: jobs that its repetition does not meet again. */
interface Done {
  purged: number
  kept: number
  changed: number
}

/**
 * Removes jobs of a queue by state and age (OJS admin API §6), in pages: other work runs in between. Throws
 * 400, without `confirm` too; 404, 503. After an error the jobs of the earlier pages are gone; repeat it.
 */
export async function purgeQueue(
  deps: Deps,
  queue: string,
  body: unknown,
  context: RequestContext,
): Promise<PurgeResult | PurgeEstimate> {
  const request = parsePurge(body)
  const { states, confirm, dry_run: isDryRun } = request
  if (isDryRun !== true && confirm !== true) {
    throw invalidField('confirm', "Jobs are removed only with 'confirm': true.", {
      reason: 'confirmation_required',
    })
  }
  const filters = filtersOf(queue, request, deps.clock.now())
  if (!deps.ledger.known.hasQueue(queue)) throw queueRefusal(queue, 'missing')
  return isDryRun === true
    ? await estimate(deps, states, filters)
    : await purge(deps, queue, states, filters, context)
}

/** The age of a job that has ended counts from its end, that of one that waits from its creation. */
function filtersOf(queue: string, { states, older_than }: PurgeRequest, now: number): JobFilter[] {
  const given = { value: String(older_than), field: 'older_than', now }
  const until = { from: null, until: older_than == null ? null : instantOf(given) }
  const of = { ...ANY_JOB, queues: [queue] }
  const ended = states.filter((state) => isTerminal(state))
  const waiting = states.filter((state) => !isTerminal(state))
  return [
    ...(ended.length > 0 ? [{ ...of, states: ended, ended: until }] : []),
    ...(waiting.length > 0 ? [{ ...of, states: waiting, created: until }] : []),
  ]
}

async function estimate(
  { ledger }: Deps,
  states: readonly JobState[],
  filters: readonly JobFilter[],
): Promise<PurgeEstimate> {
  const counts = await Promise.all(filters.map((one) => ledger.read.search.count(one, MAX_COUNTED)))
  const matched = counts.reduce((sum, { count }) => sum + count, 0)
  return { states, matched, isBound: counts.some(({ isBound }) => isBound) }
}

async function purge(
  deps: Deps,
  queue: string,
  states: readonly JobState[],
  filters: readonly JobFilter[],
  context: RequestContext,
): Promise<PurgeResult> {
  const done: Done = { purged: 0, kept: 0, changed: 0 }
  let hasMore = false
  const { requestId, principal } = context
  try {
    for (const filter of filters) hasMore = (await purgeBy(deps, filter, done, context)) || hasMore
  } finally {
    const { purged, kept } = done
    const counts = { purged, kept, hasMore, requestId, principal }
    deps.logger.info({ queue, states, ...counts }, 'queue purged')
  }
  return { states, purged: done.purged, kept: done.kept, hasMore }
}

/** Returns true if it stopped before the last job. */
async function purgeBy(
  deps: Deps,
  filter: JobFilter,
  done: Done,
  context: RequestContext,
): Promise<boolean> {
  const { states } = filter
  const cause = { requestId: context.requestId, principal: context.principal, reason: 'purged' }
  let after: Place | null = null
  do {
    if (done.changed >= MAX_PURGED) return true
    const page: Awaited<ReturnType<Deps['ledger']['read']['search']['ids']>> =
      await deps.ledger.read.search.ids(filter, after, PAGE)
    const terms = { states, now: deps.clock.now(), cause }
    const ids = page.found.map(({ id }) => id)
    const purged = ids.length === 0 ? [] : await deps.ledger.purge(ids, terms)
    for (const one of purged) noteOne(deps, one, done, context)
    after = page.next
    await nextTurn()
  } while (after !== null)
  return false
}

function noteOne(
  deps: Deps,
  { job, cancelled, isKept }: Purged,
  done: Done,
  context: RequestContext,
): void {
  done[isKept ? 'kept' : 'purged'] += 1
  if (!isKept || cancelled !== null) done.changed += 1
  if (cancelled !== null) void followCancel(deps, cancelled, context)
  else if (job.isDeadLetter && !isKept) {
    deps.events.emit({ type: 'dead_letter.deleted', job, requestId: context.requestId })
  }
}

/** A member of the query and of the body must not mean two things (D5 of a body that DELETE may have). */
export function requireOneMeaning(
  body: Record<string, unknown>,
  query: Record<string, unknown>,
): Record<string, unknown> {
  for (const [name, value] of Object.entries(query)) {
    if (!(name in body) || JSON.stringify(body[name]) === JSON.stringify(value)) continue
    throw new OjsError('invalid_request', `'${name}' differs between body and query.`, {
      details: { field: name },
    })
  }
  return { ...body, ...query }
}
