import type { Options } from 'amqplib'
import { timestamp } from '../job/document.ts'
import { MAX_INT32 } from '../job/int32.ts'
import type { Carry, JobRow } from '../job/job.ts'
import { OJS_MEDIA_TYPE } from '../job/media-type.ts'
import { traceIdIn } from '../job/trace-carry.ts'
import {
  cleanList,
  cleanText,
  type HeaderTable,
  MAX_SHORT_BYTES,
  OJS_HEADERS,
  restoreHeaders,
} from './headers.ts'

const MAX_DATE_MS = 8.64e15

export interface Token {
  content: Buffer
  options: Options.Publish
}

/** What the properties of a token say: of a row, or of a delivery that a native worker failed. */
export type TokenSource = Pick<
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
 * The message that causes the attempt after `row.attempt` (seed 002 §6), or the copy of a discarded
 * job for its dead letter queue. Every property and header of the seed whose value exists; never
 * `expiration`, which would let the broker drop the job. No `user_id`: RabbitMQ closes the channel
 * when it is not our own.
 *
 * `priority` is OJS 0–9 clamped, on every broker version. 4.3's quorum queues rank a message
 * without priority as 4, above our 0; we do not send p + 4 for that, because native workers and
 * every older broker read 0–9 (seed 002 §6.1).
 */
export function tokenOf(row: JobRow): Token {
  return { content: contentOf(row), options: publishOptionsOf(row) }
}

/** Properties and headers alone: a native worker sends the body on as it came. */
export function publishOptionsOf(source: TokenSource): Options.Publish {
  const { carry } = source
  const correlationId = carry?.correlationId ?? traceIdIn(carry ?? {})
  // Only what a native publisher asked for: "preserve all other original properties" (§8.3).
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

/** The envelope as it was stored; the generation is spliced in, since it changes (§2). */
function contentOf(row: JobRow): Buffer {
  const { envelope, generation } = row
  // A member of this name that came with the envelope must not count as ours: the last one wins.
  const isPlain = generation === 0 && !envelope.includes('"x_ojs_generation"')
  if (isPlain) return Buffer.from(envelope)
  return Buffer.from(`${envelope.slice(0, -1)},"x_ojs_generation":${generation}}`)
}

function headersOf(row: TokenSource): HeaderTable {
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

/** A token causes the next attempt; the copy of a dead job tells of its last (seed 002 §5.5). */
function attemptOf({ state, attempt }: TokenSource): number {
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

/** amqplib sends a small number as int8, which breaks `.(int32)` in Go (seed 002 §6.2: int32). */
function int32(value: number): { '!': 'int32'; value: number } {
  return { '!': 'int32', value: Math.min(Math.max(Math.trunc(value), 0), MAX_INT32) }
}

/** As an AMQP short string holds it. */
export function shortText(text: string): string {
  return cleanText(text, MAX_SHORT_BYTES)
}
