/** Another job like an existing one, with changes; also as the retry of a dead letter. */
import { invalidField, notFound, OjsError } from '../../errors.ts'
import { ownEnvelope } from '../../job/document.ts'
import { isExpired, type JobRow } from '../../job/job.ts'
import { isJsonObject, membersOf } from '../../job/values/json-value.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { type Pushed, pushCopy } from '../enqueue/push.ts'
import { visibleJob } from '../info.ts'
import { refuseUnknown } from './bulk-request.ts'

/** What may be changed; `meta` is merged into that of the original, anything else replaces it. */
const CHANGEABLE = [
  ...['type', 'args', 'meta', 'queue', 'priority', 'tags', 'retry', 'max_attempts', 'timeout_ms'],
  ...['visibility_timeout_ms', 'delay_until', 'scheduled_at', 'expires_at', 'unique', 'schema'],
  ...['rate_limit', 'pending'],
]
const FIELD = 'override'

/**
 * Enqueues a copy of any job: everything as its producer sent it, but under a new id and with `changes`. The
 * copy passes every check of PUSH, and says of which job it is one (`copyOf`). The original stays as it is.
 * Throws 404, and what PUSH throws.
 */
export async function copyJob(
  deps: Deps,
  id: string,
  changes: unknown,
  context: RequestContext,
): Promise<Pushed> {
  const row = await visibleJob(deps, id)
  if (row === null) throw notFound('job', id)
  return await pushChanged(deps, row, changes, false, context)
}

/**
 * Retries a dead letter as a copy with changes. The dead letter itself stays, with all that it was and failed
 * with, and says as which job it was retried (`retriedAs`). Throws 404, and what PUSH throws.
 */
export async function retryChanged(
  deps: Deps,
  id: string,
  changes: unknown,
  context: RequestContext,
): Promise<JobRow> {
  const row = await visibleJob(deps, id)
  if (!row?.isDeadLetter) throw notFound('dead_letter_job', id)
  const { job } = await pushChanged(deps, row, changes, true, context)
  deps.events.emit({ type: 'dead_letter.retried', job: row, requestId: context.requestId })
  return job
}

async function pushChanged(
  deps: Deps,
  row: JobRow,
  changes: unknown,
  isRetry: boolean,
  context: RequestContext,
): Promise<Pushed> {
  const changed = changesIn(changes)
  const body = changedBody(row, changed, deps.clock.wall())
  try {
    return await pushCopy(deps, body, { id: row.id, isRetry }, context)
  } catch (error) {
    throw error instanceof OjsError ? ofOverride(error, changed) : error
  }
}

/** `override` in the body of a copy or a retry. Throws 400 for any other member: it may be a misspelt one. */
export function overrideIn(body: Record<string, unknown>): unknown {
  refuseUnknown(body, [FIELD])
  return body[FIELD]
}

function changesIn(changes: unknown): Record<string, unknown> {
  if (changes == null) return {}
  if (!isJsonObject(changes)) throw invalidField(FIELD, `The '${FIELD}' field must be an object.`)
  const unknown = Object.keys(changes).find((name) => !CHANGEABLE.includes(name))
  if (unknown === undefined) return changes
  throw invalidField(`${FIELD}.${unknown}`, `A job's '${unknown}' cannot be changed.`, {
    expected: [...CHANGEABLE],
  })
}

/** The job as a body of PUSH. */
function changedBody(
  row: JobRow,
  changes: Record<string, unknown>,
  wall: number,
): Record<string, unknown> {
  const { id: _, ...own } = membersOf(JSON.parse(ownEnvelope(row.envelope)))
  if (isExpired(row, wall)) delete own['expires_at']
  // The state tells it: an envelope does not.
  if (row.state === 'pending') own['pending'] = true
  const attempts = changes['max_attempts']
  if (changes['retry'] !== undefined) {
    delete own['max_attempts']
    delete own['retry_extra']
  } else if (attempts != null && isJsonObject(own['retry'])) {
    own['retry'] = { ...own['retry'], max_attempts: attempts }
  }
  if (changes['timeout_ms'] !== undefined) delete own['timeout']
  if (changes['visibility_timeout_ms'] !== undefined) delete own['visibility_timeout']
  if (changes['delay_until'] != null) delete own['scheduled_at']
  if (changes['unique'] !== undefined) delete own['unique_extra']
  const { meta, ...rest } = changes
  const isMerged = isJsonObject(meta)
  return { ...own, ...rest, ...(isMerged && { meta: { ...membersOf(own['meta']), ...meta } }) }
}

/** A refusal of a changed member names it where the client wrote it. */
function ofOverride(error: OjsError, changes: Record<string, unknown>): OjsError {
  const field = error.details?.['field']
  if (typeof field !== 'string') return error
  const name = field.replace(/^options\./, '')
  const [first = ''] = name.split(/[.[]/)
  return Object.hasOwn(changes, first) ? error.withDetails({ field: `${FIELD}.${name}` }) : error
}
