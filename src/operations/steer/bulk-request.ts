/** Requests for actions on many jobs: by ids or by filter, confirmed, limited, or as a dry run. */
import { echoed, invalidField, OjsError } from '../../errors.ts'
import type { JobState } from '../../job/job.ts'
import type { JobFilter } from '../../job/search/filter.ts'
import { type JobAction, type Steering, TOUCHABLE } from '../../job/steer.ts'
import { isJsonObject } from '../../job/values/json-value.ts'
import type { RequestContext } from '../deps.ts'
import { parseJobFilter } from '../search/parse-filter.ts'
import type { ByFilter } from './bulk.ts'
import { ofDeadLetters, steering } from './steer.ts'

/** Ids in one request, and so many jobs an atomic request may touch. */
export const MAX_IDS = 1_000

export interface BulkRequest extends ByFilter {
  /** Null: by filter. */
  ids: readonly string[] | null
  isAtomic: boolean
  isDryRun: boolean
  /** The answer is the operation, which goes on in the background. */
  isAsync: boolean
}

type Body = Record<string, unknown>

interface Bounds {
  /** The states of a filter that names none, and those that it may name. */
  byDefault: readonly JobState[]
  allowed: readonly JobState[]
}

const ENDED: readonly JobState[] = TOUCHABLE.delete
const WAITING: readonly JobState[] = ['available', 'scheduled', 'pending', 'retryable']

/** OJS admin API §"Bulk operations"; also retries completed jobs, if these are named. */
const ADMIN: Readonly<Record<JobAction, Bounds>> = {
  retry: { byDefault: ['discarded'], allowed: TOUCHABLE.retry },
  cancel: { byDefault: WAITING, allowed: TOUCHABLE.cancel },
  delete: { byDefault: ENDED, allowed: ENDED },
}

/** OJS bulk operations: retries neither cancelled nor completed jobs. */
const DATA: Readonly<Record<JobAction, Bounds>> = {
  retry: { byDefault: ['discarded'], allowed: ['discarded', 'retryable'] },
  cancel: { byDefault: ['available', 'scheduled'], allowed: TOUCHABLE.cancel },
  delete: { byDefault: ENDED, allowed: ENDED },
}

const ADMIN_LIMITS = { byDefault: 10_000, most: 100_000 }
const DATA_LIMIT = 10_000
const DEAD_MEMBERS = { since: 'ended_since', until: 'ended_until' }

/** `POST /admin/jobs/bulk/…`. Throws 400. */
export function adminBulk(
  action: JobAction,
  body: Body,
  now: number,
  context: RequestContext,
): BulkRequest {
  refuseUnknown(body, ['filter', 'job_ids', 'confirm', 'limit', 'dry_run', 'async'])
  const isDryRun = requireConfirmed(body)
  const how = steering(action, context)
  if (body['job_ids'] != null) {
    return { ...ofIds(body, how), isDryRun, isAtomic: false }
  }
  const filter = filterIn(body, now)
  if (action === 'delete') requireCondition(body['filter'])
  const bounded = boundedBy(ADMIN[action], how, filter)
  return { ...ofFilter(body, bounded, filter), limit: limitIn(body), isDryRun }
}

/** `POST /jobs/bulk/…`. Throws 400, 413. */
export function dataBulk(
  action: JobAction,
  body: Body,
  now: number,
  context: RequestContext,
): BulkRequest {
  refuseUnknown(body, ['filter', 'job_ids', 'atomicity', 'dry_run', 'idempotency_key'])
  const isAtomic = isAtomicIn(body)
  const isDryRun = flagIn(body, 'dry_run')
  const how = steering(action, context)
  if (body['job_ids'] != null) {
    const { allowed } = DATA[action]
    return { ...ofIds(body, { ...how, states: allowed }), isAtomic, isDryRun }
  }
  const filter = filterIn(body, now)
  if (action === 'delete') requireCondition(body['filter'])
  const bounded = boundedBy(DATA[action], how, filter)
  return { ...ofFilter(body, bounded, filter), limit: DATA_LIMIT, isAtomic, isDryRun }
}

/** Bulk retry of dead letters. Throws 400. */
export function deadLetterRetry(body: Body, now: number, context: RequestContext): BulkRequest {
  refuseUnknown(body, ['filter', 'confirm', 'limit', 'dry_run', 'async'])
  const isDryRun = requireConfirmed(body)
  const filter = filterIn(body, now, DEAD_MEMBERS)
  const how = { ...ofDeadLetters('retry', context), sparesRetried: true }
  return { ...ofFilter(body, how, filter), limit: limitIn(body), isDryRun }
}

/** Purge of dead letters; its filter is beside the other members. Throws 400. */
export function deadLetterPurge(body: Body, now: number, context: RequestContext): BulkRequest {
  const { confirm: _, limit: __, dry_run: ___, async: ____, ...members } = body
  const isDryRun = requireConfirmed(body)
  const filter = parseJobFilter(members, now, '', DEAD_MEMBERS)
  const how = ofDeadLetters('delete', context)
  return { ...ofFilter({ ...body, filter: members }, how, filter), limit: limitIn(body), isDryRun }
}

/** The filter of a list of dead letters. Throws 400. */
export function deadLetterFilter(members: Body, now: number): JobFilter {
  return parseJobFilter(members, now, '', DEAD_MEMBERS)
}

/** True for a body with `atomicity: atomic`. Throws 400 for another word than `partial`. */
export function isAtomicIn({ atomicity }: Body): boolean {
  if (atomicity == null || atomicity === 'partial') return false
  if (atomicity === 'atomic') return true
  throw invalidField('atomicity', "The 'atomicity' field must be partial or atomic.", {
    expected: ['partial', 'atomic'],
    received: echoed(String(atomicity)),
  })
}

/** Throws 413 if a list is longer than `MAX_IDS`. */
export function refuseLong(size: number): void {
  if (size <= MAX_IDS) return
  throw new OjsError('invalid_request', `A request may name at most ${MAX_IDS} jobs.`, {
    status: 413,
    details: { reason: 'batch_size_exceeded', batch_size: size, max_batch_size: MAX_IDS },
  })
}

/** Also for what comes as a query. True: only a dry run. Throws 400 without `confirm: true` (ADM §4). */
function requireConfirmed(body: Body): boolean {
  const isDryRun = flagIn(body, 'dry_run')
  if (isDryRun || body['confirm'] === true) return isDryRun
  throw invalidField('confirm', "The 'confirm' field must be true: this changes many jobs.", {
    reason: 'confirmation_required',
  })
}

function flagIn(body: Body, name: string): boolean {
  const value = body[name] ?? false
  if (typeof value === 'boolean') return value
  throw invalidField(name, `The '${name}' field must be true or false.`)
}

function limitIn(body: Body): number | null {
  const { limit } = body
  // In the background there is no need for one.
  if (limit == null) return flagIn(body, 'async') ? null : ADMIN_LIMITS.byDefault
  const isRight = Number.isInteger(limit) && (limit as number) >= 1
  if (isRight && (limit as number) <= ADMIN_LIMITS.most) return limit as number
  throw invalidField('limit', `The 'limit' field must be 1 to ${ADMIN_LIMITS.most}.`)
}

function ofIds(body: Body, how: Steering): Omit<BulkRequest, 'isAtomic' | 'isDryRun'> {
  const { job_ids: ids } = body
  if (body['filter'] != null) throw oneOf()
  const isList = Array.isArray(ids) && ids.length > 0 && ids.every((id) => isId(id))
  if (!isList) throw invalidField('job_ids', "The 'job_ids' field must be a list of ids.")
  refuseLong(ids.length)
  const filter = parseJobFilter({}, 0)
  return { ids: ids as string[], how, filter, asked: null, limit: null, isAsync: false }
}

function isId(id: unknown): boolean {
  return typeof id === 'string' && id !== ''
}

function ofFilter(
  body: Body,
  how: Steering,
  filter: JobFilter,
): Omit<BulkRequest, 'isDryRun' | 'limit'> {
  const isAsync = flagIn(body, 'async')
  return { ids: null, how, filter, asked: body['filter'], isAtomic: false, isAsync }
}

function filterIn(body: Body, now: number, renamed: Record<string, string> = {}): JobFilter {
  const { filter } = body
  if (filter == null) throw oneOf()
  if (!isJsonObject(filter)) throw invalidField('filter', "The 'filter' field must be an object.")
  return parseJobFilter(filter, now, 'filter.', renamed)
}

function oneOf(): OjsError {
  return invalidField('filter', "Exactly one of 'filter' and 'job_ids' is needed.")
}

function requireCondition(filter: unknown): void {
  if (isJsonObject(filter) && Object.keys(filter).length > 0) return
  throw invalidField('filter', "The 'filter' field must name a condition: this would delete all.")
}

/** The states of the filter; 400 if the action can touch none of them. */
function boundedBy({ byDefault, allowed }: Bounds, how: Steering, { states }: JobFilter): Steering {
  if (states.length === 0) return { ...how, states: byDefault }
  const possible = states.filter((state) => allowed.includes(state))
  if (possible.length > 0) return { ...how, states: possible }
  throw invalidField('filter.state', `Jobs in these states cannot be touched: ${how.action}.`, {
    expected: [...allowed],
  })
}

/** Throws 400 for a member that is not `known`: a misspelt one may mean more than was wanted. */
export function refuseUnknown(body: Body, known: readonly string[]): void {
  const unknown = Object.keys(body).find((name) => !known.includes(name))
  if (unknown === undefined) return
  throw invalidField(unknown, `There is no member '${echoed(unknown)}' here.`, {
    expected: [...known],
  })
}
