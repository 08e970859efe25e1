/** Control messages: their schemas and parsers; invalid events and ids are left out singly. */
import { OjsError } from '../../errors.ts'
import type {
  InfoRequest,
  NamedJob,
  NativeClaim,
  NativeHeartbeat,
  ReportEvent,
  ReportRequest,
  SyncRequest,
} from '../../job/request.ts'
import { MAX_DURATION_MS } from '../../job/values/duration.ts'
import { MAX_INT32 } from '../../job/values/limits.ts'
import { type ListMember, Unreadable } from '../json/json-list.ts'
import { JSON_LIMITS } from '../json/json-text.ts'
import { jobIdIn, type LeftOut, leftOutIn } from './invalid-events.ts'
import { count, id, label, leaseMs, MAX_IDS, nackError, queueName } from './shared-members.ts'
import { checker, ofWorker, parser } from './validator.ts'

/**
 * The messages of the control plane (docs/architecture.md §5); `docs/reference/control-protocol.md` describes
 * them.
 */

const MAX_QUEUES = 100

const attempt = { type: 'integer', minimum: 1, maximum: MAX_INT32 }
const generation = { type: ['integer', 'null'], minimum: 0, maximum: MAX_INT32 }
/** As long as a retry policy allows: if a long delay made its event invalid, the job would be lost. */
const delayMs = { type: 'integer', minimum: 1, maximum: MAX_DURATION_MS }
const retryQueueMs = { ...delayMs, type: ['integer', 'null'], maximum: MAX_INT32 }

const JOB_SCHEMA = { type: 'object', required: ['job_id'], properties: { job_id: id } }

const INFO_SCHEMA = {
  type: 'object',
  required: ['job_id'],
  properties: { job_id: id, queue: { ...queueName, type: ['string', 'null'] } },
}

const CLAIM_SCHEMA = {
  type: 'object',
  required: ['job_id', 'attempt', 'worker_id'],
  properties: {
    job_id: id,
    generation,
    attempt,
    worker_id: id,
    keyed: { type: ['boolean', 'null'] },
    again: { type: ['boolean', 'null'] },
    redelivered: { type: ['boolean', 'null'] },
    // Read only if the id is unknown, and then as strictly as any native message.
    job: { type: ['object', 'null'] },
    max_attempts: { type: ['integer', 'null'], minimum: 0, maximum: MAX_INT32 },
    headers: { type: ['object', 'null'] },
    properties: { type: ['object', 'null'] },
  },
}

const SYNC_SCHEMA = {
  type: 'object',
  required: ['queues'],
  properties: {
    worker_id: { ...id, type: ['string', 'null'] },
    queues: { type: 'array', minItems: 1, maxItems: MAX_QUEUES, items: queueName },
    rung_ms: retryQueueMs,
  },
}

const HEARTBEAT_SCHEMA = {
  type: 'object',
  required: ['worker_id'],
  properties: {
    worker_id: id,
    // Checked one by one, so that an invalid id does not cost the other jobs their leases.
    job_id: {},
    job_ids: { type: ['array', 'null'], maxItems: MAX_IDS },
    generations: { type: ['object', 'null'], maxProperties: MAX_IDS },
    state: label,
    queues: { type: ['array', 'null'], maxItems: MAX_QUEUES, items: queueName },
    hostname: label,
    pid: count,
    concurrency: count,
    version: label,
    visibility_timeout_ms: leaseMs,
  },
}

const REPORT_SCHEMA = {
  type: 'object',
  required: ['worker_id', 'events'],
  properties: { worker_id: id, events: { type: 'array', maxItems: MAX_IDS } },
}

/**
 * One level deeper than an HTTP body, so that everything that HTTP accepts is accepted here: the body of a
 * job is a member of its event here. Results and errors are members of the request over HTTP too.
 */
export const REPORT_EVENTS: ListMember = {
  name: 'events',
  maxItems: MAX_IDS,
  item: { maxDepth: JSON_LIMITS.maxDepth + 1 },
  mayBeBroken: true,
}

const outcome = {
  type: ['object', 'null'],
  required: ['decision'],
  properties: { decision: { enum: ['retry', 'discard'] } },
  ...whenMemberIs('decision', 'retry', {
    required: ['delay_ms'],
    properties: {
      delay_ms: delayMs,
      rung_ms: retryQueueMs,
    },
  }),
}

const REPORT_EVENT_SCHEMA = {
  type: 'object',
  required: ['job_id', 'attempt', 'event'],
  properties: {
    job_id: id,
    generation,
    attempt,
    event: { enum: ['started', 'completed', 'failed', 'dropped', 'expired', 'released'] },
    at: { type: ['string', 'null'], maxLength: 64 },
    // Read only if the id is unknown, and then as strictly as any native message.
    job: { type: ['object', 'null'] },
    max_attempts: { type: ['integer', 'null'], minimum: 0, maximum: MAX_INT32 },
    headers: { type: ['object', 'null'] },
    properties: { type: ['object', 'null'] },
  },
  allOf: [
    whenMemberIs('event', 'failed', {
      required: ['error'],
      properties: { error: nackError, outcome },
    }),
    // Required, not guessed: what becomes of the job depends on whether that message can cause the same
    // attempt again.
    whenMemberIs('event', 'released', {
      required: ['token_attempt'],
      properties: { token_attempt: attempt },
    }),
  ],
}

/** A condition: objects whose `member` has this value must match `also`. */
function whenMemberIs(member: string, value: string, also: object) {
  const hasValue = { required: [member], properties: { [member]: { const: value } } }
  // biome-ignore lint/suspicious/noThenProperty: `then` is a keyword of JSON Schema.
  return { if: hasValue, then: also }
}

interface ParsedReport {
  request: ReportRequest
  /** How many events were left out because they are not valid. */
  skipped: number
  /** About the first of them. */
  complaint?: Complaint
  /** Those that name a job: without them the job's outcome would be lost. */
  leftOut: LeftOut[]
}

/** What is wrong, for the author of the worker. */
export interface Complaint {
  jobId?: string
  problem: string
}

export const parseJobId = parser<NamedJob>(JOB_SCHEMA)
export const parseInfo = parser<InfoRequest>(INFO_SCHEMA)
export const parseClaim = parser<NativeClaim>(CLAIM_SCHEMA)
export const parseSync = ofWorker(parser<SyncRequest>(SYNC_SCHEMA))

interface RawHeartbeat extends Omit<NativeHeartbeat, 'job_ids' | 'generations' | 'state'> {
  job_id?: unknown
  job_ids?: unknown[] | null
  generations?: Record<string, unknown> | null
  state?: string | null
}

const parseRawHeartbeat = ofWorker(parser<RawHeartbeat>(HEARTBEAT_SCHEMA))
const parseRawReport = parser<{ worker_id: string; events: unknown[] }>(REPORT_SCHEMA)
const isId = checker<string>(id)
const isGeneration = checker<number>({ ...generation, type: 'integer' })
const isReportEvent = checker<ReportEvent>(REPORT_EVENT_SCHEMA)
const parseReportEvent = parser<ReportEvent>(REPORT_EVENT_SCHEMA)

const STATES = ['running', 'quiet', 'terminate'] as const

/**
 * Parses a heartbeat. Leaves invalid ids out, and returns how many (`skipped`). Throws `OjsError` 400 for the
 * rest, e.g. no worker id.
 */
export function parseNativeHeartbeat(body: unknown): {
  request: NativeHeartbeat
  skipped: number
} {
  const { job_id, job_ids, generations, state, ...others } = parseRawHeartbeat(body)
  const named = [...(job_ids ?? []), ...(job_id == null ? [] : [job_id])]
  const ids = named.filter(isId)
  const request = {
    ...others,
    job_ids: [...new Set(ids)],
    ...(generations != null && { generations: generationsOf(generations) }),
    // A worker's own word for a state is ignored; it must not cost a lease (as in BEAT over HTTP).
    state: STATES.find((known) => known === state) ?? null,
  }
  return { request, skipped: named.length - ids.length }
}

function generationsOf(given: Record<string, unknown>): Map<string, number> {
  const generations = new Map<string, number>()
  for (const [name, value] of Object.entries(given)) {
    if (isGeneration(value)) generations.set(name, value)
  }
  return generations
}

/** Parses a report; invalid events are left out. Throws `OjsError` 400 if it is not a report at all. */
export function parseReport(body: unknown): ParsedReport {
  const { worker_id, events } = parseRawReport(body)
  const usable = events.filter(isReportEvent)
  const request = { worker_id, events: usable }
  if (usable.length === events.length) return { request, skipped: 0, leftOut: [] }
  const unusable = events.filter((event) => !isReportEvent(event))
  return {
    request,
    skipped: unusable.length,
    complaint: complaintOf(unusable[0], events.indexOf(unusable[0])),
    leftOut: unusable.flatMap((event) => leftOutIn(event, problemOf(event), isReportEvent) ?? []),
  }
}

function complaintOf(event: unknown, at: number): Complaint {
  const problem = `events[${at}]: ${problemOf(event)}`
  const jobId = jobIdIn(event)
  return jobId === undefined ? { problem } : { jobId, problem }
}

function problemOf(event: unknown): string {
  if (event instanceof Unreadable) return event.error.message
  try {
    parseReportEvent(event)
    return ''
  } catch (error) {
    if (error instanceof OjsError) return error.message
    throw error
  }
}
