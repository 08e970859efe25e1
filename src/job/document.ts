/** A job as JSON text for answers: the envelope with the members that change. */
import { isHeldByKey } from './concurrency.ts'
import type { Checkpoint, JobRow } from './job.ts'
import type { ProgressReport } from './progress.ts'
import { timestamper } from './values/timestamp.ts'
import { withheldText } from './withheld.ts'

/** One cache for all: a job's body, headers and answer show the same time, and so do the jobs of a batch. */
export const timestamp = timestamper()

/**
 * Seed 003 has `timeout` and `visibility_timeout` in seconds, and the AMQP body needs them. Seed 001 knows
 * only their `_ms` twins, and OJS's own SDKs read a `timeout` in an answer as milliseconds. So what the
 * producer did not write itself stands behind the id of an envelope, where `shownEnvelope` leaves it out. (In
 * front of all if the job has members such as `7`, which JavaScript writes first.)
 */
const BEFORE_ID = '{"specversion":"1.0","id":"'
const TIMEOUT = '"timeout":'
const LEASE = '"visibility_timeout":'

/** Adds times in seconds, which only the AMQP body shows, to an envelope. */
export function withSeconds(
  envelope: string,
  { timeout, visibility }: { timeout: number | undefined; visibility: number | undefined },
): string {
  if (timeout === undefined && visibility === undefined) return envelope
  const head = headOf(envelope)
  const first = timeout === undefined ? '' : `${TIMEOUT}${timeout},`
  const second = visibility === undefined ? '' : `${LEASE}${visibility},`
  return `${envelope.slice(0, head)}${first}${second}${envelope.slice(head)}`
}

/** Where `withSeconds` writes. Without a regular expression, for speed: this runs twice for every job. */
function headOf(envelope: string): number {
  if (!envelope.startsWith(BEFORE_ID)) return 1
  const end = envelope.indexOf('"', BEFORE_ID.length)
  return envelope[end + 1] === ',' ? end + 2 : 1
}

/** An envelope with another priority; everything else stays as it is, to the byte. */
export function withPriority(envelope: string, priority: number): string {
  const { head, rest } = secondsAt(envelope)
  const shown = envelope.slice(0, head) + envelope.slice(rest)
  const changed = JSON.stringify({ ...JSON.parse(shown), priority })
  const place = headOf(changed)
  return changed.slice(0, place) + envelope.slice(head, rest) + changed.slice(place)
}

/** Where `withSeconds` has written, and where that ends. */
function secondsAt(envelope: string): { head: number; rest: number } {
  const head = headOf(envelope)
  return { head, rest: after(LEASE, envelope, after(TIMEOUT, envelope, head)) }
}

/** The envelope for an answer, without its last brace. */
function shownEnvelope(envelope: string): string {
  const head = headOf(envelope)
  const rest = after(LEASE, envelope, after(TIMEOUT, envelope, head))
  return rest === head ? envelope.slice(0, -1) : envelope.slice(0, head) + envelope.slice(rest, -1)
}

/** The job as its producer wrote it, as JSON text: without the times that only the AMQP body shows. */
export function ownEnvelope(envelope: string): string {
  return `${shownEnvelope(envelope)}}`
}

/** The offset after the member, a number, if it stands at `at`; else `at`. */
function after(name: string, envelope: string, at: number): number {
  return envelope.startsWith(name, at) ? envelope.indexOf(',', at) + 1 : at
}

/**
 * The job as JSON text for an answer: the frozen envelope with the members that change during its
 * life spliced in behind. No parse and no re-serialisation, so what the producer sent comes back
 * byte for byte (seed 003: unknown members are preserved). Absent members are left out, never null.
 */
export function jobDocument(row: JobRow): string {
  let text = `${shownEnvelope(row.envelope)},"state":"${row.state}","attempt":${row.attempt}`
  if (row.generation > 0) text += `,"generation":${row.generation}`
  text += `,"enqueued_at":"${timestamp(row.enqueuedAt)}"`
  if (row.activatedAt !== null) text += `,"activated_at":"${timestamp(row.activatedAt)}"`
  if (row.startedAt !== null) text += `,"started_at":"${timestamp(row.startedAt)}"`
  if (row.workerId !== null && row.state === 'active') {
    text += `,"worker_id":${JSON.stringify(row.workerId)}`
  }
  text += retrying(row) + ending(row)
  if (row.result !== null) text += `,"result":${row.result}`
  if (row.error !== null) text += `,"error":${row.error}`
  if (row.errors !== null) text += `,"errors":${row.errors}`
  if (row.checkpoint !== undefined) text += checkpointMembers(row.checkpoint)
  return `${text}${heldBy(row)}${links(row)}}`
}

/** Why an available job is not handed out. */
function heldBy(row: JobRow): string {
  if (!isHeldByKey(row)) return ''
  return `,"held_by":${JSON.stringify({ concurrency: row.carry?.concurrency?.key })}`
}

/** From which job it was made, and as which it was retried. */
function links({ carry }: JobRow): string {
  if (carry === null) return ''
  const { copyOf, retriedAs } = carry
  let text = ''
  if (copyOf !== undefined) text += `,"copy_of":${JSON.stringify(copyOf)}`
  if (retriedAs !== undefined) text += `,"retried_as":${JSON.stringify(retriedAs)}`
  return text
}

/** A row as it was stored, and the members that `jobDocument` shows of its envelope. */
export interface FreshJob {
  job: JobRow
  members: Readonly<Record<string, unknown>>
}

const OWN = { enumerable: true, writable: true, configurable: true }

/** What `JSON.parse` would make of the row's `jobDocument`, without parsing that text. */
export function freshJobObject({ job: row, members }: FreshJob): Record<string, unknown> {
  const job: Record<string, unknown> = {}
  for (const name of Object.keys(members)) {
    const value = members[name]
    if (value === undefined) continue
    // An assignment to `__proto__` would change the prototype instead.
    if (name === '__proto__') Object.defineProperty(job, name, { ...OWN, value })
    else job[name] = value
  }
  job['state'] = row.state
  job['attempt'] = row.attempt
  if (row.generation > 0) job['generation'] = row.generation
  job['enqueued_at'] = timestamp(row.enqueuedAt)
  return job
}

/** `jobDocument` for readers from whom payloads are withheld. */
export function withheldDocument(row: JobRow): string {
  return withheldText(jobDocument(row))
}

/** The answer to INFO (seed 001 §9.3); `state` at the top is an addition (docs/architecture.md §9). */
export function infoDocument(
  row: JobRow,
  progress: ProgressReport | null,
  isPayloadShown = true,
): string {
  const job = jobDocument(row)
  const whole = progress === null ? job : `${job.slice(0, -1)}${progressMembers(progress)}}`
  return `{"job":${isPayloadShown ? whole : withheldText(whole)},"state":"${row.state}"}`
}

/** What the job itself says of its progress (OJS progress). */
function progressMembers({ progress, data, message }: ProgressReport): string {
  let text = ''
  if (progress !== null) text += `,"progress":${progress}`
  if (data !== null) text += `,"progress_data":${data}`
  if (message !== null) text += `,"progress_message":${JSON.stringify(message)}`
  return text
}

/** `retry_delay_ms` stays after the wait, so that the next FETCH shows it (ojs-choices S6). */
function retrying(row: JobRow): string {
  let text = ''
  if (row.state === 'retryable' && row.dueAt !== null) {
    text += `,"next_attempt_at":"${timestamp(row.dueAt)}"`
  }
  if (row.retryDelayMs !== null) text += `,"retry_delay_ms":${row.retryDelayMs}`
  return text
}

/** Members to splice in, under both names of OJS's documents: `last_checkpoint` is the state alone. */
export function checkpointMembers({ sequence, state, createdAt }: Checkpoint): string {
  const at = timestamp(createdAt)
  return `,"checkpoint":{"sequence":${sequence},"created_at":"${at}","state":${state}},"last_checkpoint":${state}`
}

function ending(row: JobRow): string {
  let text = ''
  if (row.completedAt !== null) text += `,"completed_at":"${timestamp(row.completedAt)}"`
  if (row.cancelledAt !== null) text += `,"cancelled_at":"${timestamp(row.cancelledAt)}"`
  if (row.discardedAt !== null) text += `,"discarded_at":"${timestamp(row.discardedAt)}"`
  return text
}

/**
 * The media type of every body and message. Without parameters, since clients compare the exact text (seed
 * 001 §4.1, §6.5).
 */
export const OJS_MEDIA_TYPE = 'application/openjobspec+json'
