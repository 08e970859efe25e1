/** A row as a job message: properties, headers, body (seed 002 §6). */
import type { Options } from 'amqplib'
import { OJS_MEDIA_TYPE, timestamp } from '../../job/document.ts'
import type { Carry, JobRow } from '../../job/job.ts'
import { traceIdIn } from '../../job/trace/carry.ts'
import { MAX_INT32 } from '../../job/values/limits.ts'
import {
  cleanList,
  cleanText,
  type HeaderTable,
  MAX_SHORT_BYTES,
  OJS_HEADERS,
  restoreHeaders,
} from './headers.ts'

const MAX_DATE_MS = 8.64e15

export interface JobMessage {
  content: Buffer
  options: Options.Publish
}

/** Fields behind a job message's properties: of a row, or of a delivery that failed in a native worker. */
export type MessageSource = Pick<
  JobRow,
  | 'id'
  | 'type'
  | 'queue'
  | 'state'
  | 'attempt'
  | 'maxAttempts'
  | 'priority'
  | 'createdAt'
  | 'enqueuedAt'
  | 'carry'
  | 'error'
>

/**
 * The message that causes the attempt after `row.attempt` (seed 002 §6), or the copy of a discarded job for
 * its dead letter queue. Has every property and header of the seed whose value exists, but never
 * `expiration`, which would let RabbitMQ drop the job, and no `user_id`, since RabbitMQ closes the channel
 * when that is not our own user.
 *
 * `priority` is OJS 0–9 clamped, on every broker version. Quorum queues of 4.3 rank a message without
 * priority as 4, above our 0. We do not send p + 4 for that, because native workers and every older broker
 * read 0–9 (seed 002 §6.1).
 */
export function jobMessageOf(row: JobRow): JobMessage {
  return { content: contentOf(row), options: publishOptionsOf(row) }
}

/** Properties and headers only: a native worker republishes the body as it received it. */
export function publishOptionsOf(source: MessageSource): Options.Publish {
  const { carry } = source
  const correlationId = carry?.correlationId ?? traceIdIn(carry ?? {})
  // Set only if a native publisher set it: "preserve all other original properties" (§8.3).
  const replyTo = carry?.properties?.replyTo
  const options: Options.Publish = {
    mandatory: true,
    persistent: true,
    contentType: OJS_MEDIA_TYPE,
    contentEncoding: 'utf-8',
    messageId: shortText(source.id),
    type: shortText(source.type),
    timestamp: Math.max(0, Math.floor(source.createdAt / 1000)),
    priority: Math.min(Math.max(Math.trunc(source.priority), 0), 9),
    appId: shortText(carry?.properties?.appId ?? 'ojs'),
    headers: headersOf(source),
  }
  if (correlationId !== undefined) options.correlationId = shortText(correlationId)
  if (replyTo !== undefined) options.replyTo = shortText(replyTo)
  return options
}

/** The stored envelope, with the generation spliced in, because the generation changes (§2). */
function contentOf(row: JobRow): Buffer {
  const { envelope, generation } = row
  // An envelope may come with a member of this name. The last one wins, so ours is appended even for 0.
  const isPlain = generation === 0 && !envelope.includes('"x_ojs_generation"')
  if (isPlain) return Buffer.from(envelope)
  return Buffer.from(`${envelope.slice(0, -1)},"x_ojs_generation":${generation}}`)
}

function headersOf(row: MessageSource): HeaderTable {
  const { carry } = row
  const headers: HeaderTable = carry?.headers ? restoreHeaders(carry.headers) : {}
  headers[OJS_HEADERS.queue] = row.queue
  headers[OJS_HEADERS.attempt] = int32(attemptOf(row))
  headers[OJS_HEADERS.maxAttempts] = int32(row.maxAttempts)
  setInstant(headers, OJS_HEADERS.createdAt, row.createdAt)
  setInstant(headers, OJS_HEADERS.enqueuedAt, row.enqueuedAt)
  if (carry !== null) setCarried(headers, carry)
  if (row.error !== null) setError(headers, row.error)
  return headers
}

/** A job message causes the next attempt; the copy of a dead job names its last one (seed 002 §5.5). */
function attemptOf({ state, attempt }: MessageSource): number {
  return state === 'discarded' ? Math.max(attempt, 1) : attempt + 1
}

function setCarried(headers: HeaderTable, carry: Carry): void {
  setText(headers, OJS_HEADERS.scheduledAt, carry.scheduledAt)
  setText(headers, OJS_HEADERS.tags, carry.tags && cleanList(carry.tags.join(',')))
  setText(headers, OJS_HEADERS.traceId, carry.traceparent)
  setText(headers, OJS_HEADERS.traceState, carry.tracestate)
  setText(headers, OJS_HEADERS.idempotencyKey, carry.idempotencyKey)
}

/** Seed 002 §8.3: the last failure travels with the retry. */
function setError(headers: HeaderTable, json: string): void {
  const error: unknown = JSON.parse(json)
  if (typeof error !== 'object' || error === null) return
  if ('message' in error) setText(headers, OJS_HEADERS.errorMessage, error.message)
  if ('code' in error) setText(headers, OJS_HEADERS.errorCode, error.code)
}

function setText(headers: HeaderTable, name: string, value: unknown): void {
  if (typeof value === 'string' && value !== '') headers[name] = cleanText(value)
}

function setInstant(headers: HeaderTable, name: string, ms: number): void {
  if (Math.abs(ms) <= MAX_DATE_MS) headers[name] = timestamp(ms)
}

/** amqplib sends small numbers as int8, which breaks `.(int32)` in Go (seed 002 §6.2: int32). */
function int32(value: number): { '!': 'int32'; value: number } {
  return { '!': 'int32', value: Math.min(Math.max(Math.trunc(value), 0), MAX_INT32) }
}

/** Cleans and cuts the text to fit an AMQP short string. */
export function shortText(text: string): string {
  return cleanText(text, MAX_SHORT_BYTES)
}
