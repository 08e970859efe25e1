/** Bulk enqueue: a PUSH for each job, with a result for each (OJS bulk operations). */
import { invalidField, OjsError } from '../../errors.ts'
import type { JobRow } from '../../job/job.ts'
import { requireReadable } from '../../schemas/json/json-list.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { type Pushed, push } from '../enqueue/push.ts'
import { pushBatch } from '../enqueue/push-batch.ts'
import { requirePublishing } from '../require-broker.ts'
import { isAtomicIn, refuseLong } from './bulk-request.ts'

/** PUSHes that are under way at the same time. */
const AT_ONCE = 50

/** What became of each job, in the order of the request. */
type ManyItem =
  | { status: 'created' | 'duplicate'; job: JobRow }
  | { status: 'failed'; error: OjsError }

export interface PushedMany {
  items: ManyItem[]
  atomicity: 'partial' | 'atomic'
}

/**
 * Enqueues each job by itself, or with `atomicity: atomic` all of them or none. A refusal of one job is in its
 * item. A repeated request with the same `Idempotency-Key` gets the jobs of the first one again, and tries
 * those again that were refused. Throws 400 for a malformed request, 413 for too many jobs, 503.
 */
export async function pushMany(
  deps: Deps,
  body: Record<string, unknown>,
  context: RequestContext,
): Promise<PushedMany> {
  const { jobs, idempotency_key: key } = body
  const isAtomic = isAtomicIn(body)
  if (!Array.isArray(jobs) || jobs.length === 0) {
    throw invalidField('jobs', "The 'jobs' field must be a list of 1 to 1000 jobs.")
  }
  refuseLong(jobs.length)
  const keyed = withKey(context, key)
  requirePublishing(deps)
  const items = isAtomic
    ? await atOnce(deps, jobs, keyed)
    : await oneByOne(deps, jobs as unknown[], keyed)
  const atomicity = isAtomic ? 'atomic' : 'partial'
  const failed = items.filter(({ status }) => status === 'failed').length
  const data = { total: items.length, succeeded: items.length - failed, failed, atomicity }
  const { requestId } = context
  deps.events.emit({ type: 'bulk.enqueue.completed', bulk: { id: null, data }, requestId })
  return { items, atomicity }
}

const MAX_KEY = 256

function withKey(context: RequestContext, key: unknown): RequestContext {
  if (context.idempotencyKey !== undefined || key == null) return context
  if (typeof key === 'string' && /^[\x21-\x7e]+$/.test(key) && key.length <= MAX_KEY) {
    return { ...context, idempotencyKey: key }
  }
  throw invalidField(
    'idempotency_key',
    `The 'idempotency_key' field must be 1 to ${MAX_KEY} printable ASCII characters.`,
  )
}

async function oneByOne(
  deps: Deps,
  jobs: readonly unknown[],
  context: RequestContext,
): Promise<ManyItem[]> {
  const items: ManyItem[] = []
  while (items.length < jobs.length) {
    const some = jobs.slice(items.length, items.length + AT_ONCE)
    const first = items.length
    items.push(
      ...(await Promise.all(some.map((job, i) => pushed(deps, job, ofItem(context, first + i))))),
    )
  }
  const [first] = items
  const areAllUnavailable = items.every((item) => item.status === 'failed' && isUnavailable(item))
  if (first?.status === 'failed' && areAllUnavailable) throw first.error
  return items
}

function isUnavailable({ error }: { error: OjsError }): boolean {
  return error.status === 503
}

/** A key names one job: that of the request with the place of the item. */
function ofItem(context: RequestContext, index: number): RequestContext {
  const { idempotencyKey: key } = context
  return key === undefined ? context : { ...context, idempotencyKey: `bulk.${index}.${key}` }
}

async function pushed(deps: Deps, job: unknown, context: RequestContext): Promise<ManyItem> {
  try {
    requireReadable(job)
    return itemOf(await push(deps, job, context))
  } catch (error) {
    if (error instanceof OjsError) return { status: 'failed', error }
    throw error
  }
}

function itemOf({ job, isDuplicate }: Pushed): ManyItem {
  return { status: isDuplicate ? 'duplicate' : 'created', job }
}

async function atOnce(
  deps: Deps,
  jobs: readonly unknown[],
  context: RequestContext,
): Promise<ManyItem[]> {
  try {
    const { idempotencyKey: key } = context
    const keyed = key === undefined ? context : { ...context, idempotencyKey: `bulk.${key}` }
    const batch = await pushBatch(deps, { jobs }, keyed)
    const existing = new Set(batch.existing)
    return batch.jobs.map((job, i) => ({ status: existing.has(i) ? 'duplicate' : 'created', job }))
  } catch (error) {
    const index = error instanceof OjsError ? error.details?.['index'] : undefined
    if (!(error instanceof OjsError) || typeof index !== 'number') throw error
    return jobs.map((_, i) => ({ status: 'failed', error: i === index ? error : rolledBack() }))
  }
}

function rolledBack(): OjsError {
  return new OjsError('invalid_request', 'Another job of the request was refused.', {
    details: { reason: 'rolled_back' },
  })
}
