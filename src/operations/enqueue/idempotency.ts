/** `Idempotency-Key`: a repeated request gets the first answer again for a day. */
import { OjsError } from '../../errors.ts'
import type { JobRow, NewJob } from '../../job/job.ts'
import { fingerprint, normal } from '../../job/values/canonical-json.ts'
import { membersOf } from '../../job/values/json-value.ts'
import type { KeyedRequest, Remembered } from '../../ledger/idempotency.ts'
import { inSlices, startNow } from '../../slices.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { visibleJob } from '../info.ts'
import { isQueueInScope } from '../scope.ts'
import { OthersFirst } from './wait-for-conflicts.ts'

const HEADER = 'Idempotency-Key'

/** Before the fingerprints of bodies as they were sent. Those without it, of earlier versions, are of bodies in NFC. */
const AS_SENT = 'sent:'

interface Asked {
  /** A key counts within one endpoint and one API key. */
  endpoint:
    | 'jobs'
    | 'jobs/batch'
    | 'workflows'
    | 'cron'
    | 'cron?replace'
    | 'cron/trigger'
    | 'copy'
    | 'schemas'
  body: unknown
  context: RequestContext
}

/**
 * Runs `work` once for each `Idempotency-Key` (OJS unique jobs). A client that repeats a request within a
 * day, or sends it twice at the same time, gets what the ledger remembers of the first, rendered by `replay`.
 * A refusal is not remembered, as nothing was stored. Throws 409 for another body under the same key.
 */
export function once<T>(deps: Deps, asked: Asked, work: Work<T>, replay: Replay<T>): Promise<T> {
  const { idempotencyKey, principal = '' } = asked.context
  if (idempotencyKey === undefined) return work({})
  // None of the three parts can contain a line break, so two different scopes never make the same key.
  const key = `${asked.endpoint}\n${principal}\n${idempotencyKey}`
  const run = (ofBody: string) => {
    const request = { key, fingerprint: `${AS_SENT}${ofBody}` }
    return onceWithKey(deps, { ...asked, request }, work, replay)
  }
  const ofBody = startNow(fingerprint(asked.body))
  return typeof ofBody === 'string' ? run(ofBody) : ofBody.then(run)
}

type Work<T> = (terms: { request?: KeyedRequest }) => Promise<T>
type Replay<T> = (remembered: Remembered, request: KeyedRequest) => Promise<T>

async function onceWithKey<T>(
  deps: Deps,
  { body, request }: Pick<Asked, 'body'> & { request: KeyedRequest },
  work: Work<T>,
  replay: Replay<T>,
): Promise<T> {
  let others: OthersFirst | undefined
  const { keyed } = deps.transient
  for (let other = keyed.get(request.key); other; other = keyed.get(request.key)) {
    others ??= new OthersFirst(deps)
    await others.wait(other)
  }
  return await alone(deps, request.key, async () => {
    const remembered = await deps.ledger.read.idempotency.find(request.key, deps.clock.now())
    return remembered
      ? await replay(remembered, await comparable(request, body, remembered))
      : await work({ request })
  })
}

/** The request with the kind of fingerprint that the remembered one has, which may be of an earlier version. */
async function comparable(
  request: KeyedRequest,
  body: unknown,
  { fingerprint: first }: Remembered,
): Promise<KeyedRequest> {
  if (first.startsWith(AS_SENT)) return request
  return { ...request, fingerprint: await inSlices(fingerprint(body, normal)) }
}

/**
 * Lists `key` in `transient.keyed` while `work` runs, so that other requests with it wait. The key is off
 * the list before they check it again.
 */
async function alone<T>(deps: Deps, key: string, work: () => Promise<T>): Promise<T> {
  const working = work()
  const unlist = () => deps.transient.keyed.delete(key)
  deps.transient.keyed.set(key, working.then(unlist, unlist))
  return await working
}

/** Who repeats a request, and for which jobs, in their order. */
export interface AskedAgain {
  context: RequestContext
  jobs: readonly unknown[]
}

export function askedFor(context: RequestContext, jobs: readonly NewJob[]): AskedAgain {
  return { context, jobs: jobs.map(({ envelope }) => JSON.parse(envelope)) }
}

/**
 * Returns the jobs of the first answer, as they are now. Throws 409 when the first request had another body,
 * or when one of the jobs is gone by now; so it is if it was deleted and its id has another job.
 */
export async function rememberedJobs(
  deps: Pick<Deps, 'ledger'>,
  remembered: Remembered,
  request: KeyedRequest,
  { context, jobs }: AskedAgain,
): Promise<JobRow[]> {
  const { ids, existing } = remembered
  requireSameBody(remembered, request, ids.length === 1 ? { existing_job_id: ids[0] } : {})
  const rows = await Promise.all(ids.map((id) => visibleJob(deps, id)))
  const isKept = (row: JobRow, i: number) =>
    isQueueInScope(context, row.queue) && (existing.includes(i) || isOf(row, jobs[i]))
  return rows.map((row, i) => {
    if (row !== null && isKept(row, i)) return row
    throw gone(`job '${ids[i]}'`, { reason: 'job_gone', existing_job_id: ids[i] })
  })
}

/** Whether the row is of this job, as far as one that has chosen its id can be another. */
function isOf(row: JobRow, job: unknown): boolean {
  const { id, type, args } = membersOf(job)
  if (id !== row.id) return true
  const stored = membersOf(JSON.parse(row.envelope))['args']
  return type === row.type && JSON.stringify(args) === JSON.stringify(stored)
}

/** The same for a workflow, a cron entry or a schema, which `find` looks up. `what`: its resource type. */
export async function rememberedResource<T>(
  what: string,
  remembered: Remembered,
  request: KeyedRequest | undefined,
  find: (id: string, rest: readonly string[]) => Promise<T | null>,
): Promise<T> {
  if (request === undefined) throw new Error('a request without a key was remembered')
  const [id = '', ...rest] = remembered.ids
  requireSameBody(remembered, request, { resource_type: what, resource_id: id })
  const found = await find(id, rest)
  if (found !== null) return found
  throw gone(`${what} '${id}'`, { reason: 'resource_gone', resource_type: what, resource_id: id })
}

function requireSameBody(
  { fingerprint: first }: Remembered,
  { fingerprint: own }: KeyedRequest,
  named: Record<string, unknown>,
): void {
  if (first === own) return
  throw new OjsError('duplicate', `The ${HEADER} was used before with another body.`, {
    details: { field: HEADER, reason: 'other_body', ...named },
  })
}

function gone(what: string, details: Record<string, unknown>): OjsError {
  return new OjsError('duplicate', `The ${HEADER} was used before; its ${what} no longer exists.`, {
    details: { field: HEADER, ...details },
  })
}
