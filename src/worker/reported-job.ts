/** The job in an event: a native job as the gateway needs it to adopt it. */
import type { LiveDelivery } from '../broker/consume/delivery.ts'
import { cleanHeaders, cleanText, OJS_HEADERS } from '../broker/messages/headers.ts'
import { foreignMessage } from '../broker/messages/incoming-message.ts'
import { jsonText } from '../job/values/json-value.ts'
import { BARE_EVENT_BYTES, type EventName, isTellable, MAX_EVENT_BYTES } from './event-text.ts'
import type { MessageJob } from './message-job.ts'

/** Largest job that is shown with an event other than `failed`: the gateway could do without it. */
const MAX_OTHER_BYTES = 64 * 1024 - 4_096
/**
 * Largest failed job whose retry can be left to the gateway, which then must get it: so small that no gateway
 * refuses the report, whatever its `OJS_MAX_BODY_BYTES`. The rest of the event is the error, up to 100,000
 * bytes.
 */
const MAX_KEPT_BYTES = 900_000
/**
 * Largest failed job that is shown otherwise. A gateway accepts reports of 1 MiB plus three times its
 * `OJS_MAX_BODY_BYTES`, 7 MiB by default. It may handle 32 of them at a time, and has each several times in
 * its heap. If it refuses the report, the job stays as unknown to it as it would be without.
 */
const MAX_FAILED_BYTES = 3 * 1024 * 1024

/** The `x-ojs-*` headers that a gateway cannot know better than the publisher. */
const PUBLISHERS_OWN = [
  ...[OJS_HEADERS.createdAt, OJS_HEADERS.enqueuedAt, OJS_HEADERS.scheduledAt, OJS_HEADERS.tags],
  ...[OJS_HEADERS.traceId, OJS_HEADERS.traceState, OJS_HEADERS.idempotencyKey],
]

/**
 * The members of an event that show the job itself to a gateway that has never heard of it, so that the job
 * is visible over HTTP and its retry can be left to the gateway. Empty if there is no room for the job beside
 * the members in `beside`.
 *
 * `isLeft`: the retry is left to the gateway. Then a job that the gateway should know is shown, too.
 * Otherwise it would be lost if it came from another broker, or is newer than a ledger that was restored.
 */
export function shownMembers(
  { isKnown, maxAttempts }: MessageJob,
  { raw }: LiveDelivery,
  { event, beside, isLeft }: { event: EventName; beside: string; isLeft: boolean },
): string {
  // `released` events never show the job; the worker that runs it next will.
  if (event === 'released') return ''
  if (isKnown && !isLeft) return ''
  const { content } = raw
  const message = besideBody(raw)
  const room = MAX_EVENT_BYTES - BARE_EVENT_BYTES - Buffer.byteLength(beside + message)
  const maxBytes = event === 'failed' ? maxFailedBytes(isLeft) : Math.min(room, MAX_OTHER_BYTES)
  if (content.length > maxBytes) return ''
  return `,"job":${jsonText(content)},"max_attempts":${maxAttempts}${message}`
}

/** As `shownMembers`, for the claim of a job that the gateway may not know; empty if it is too large. */
export function shownForClaim(jobMessage: MessageJob, delivery: LiveDelivery): string {
  return shownMembers(jobMessage, delivery, { event: 'failed', beside: '', isLeft: true })
}

function maxFailedBytes(isLeft: boolean): number {
  return isLeft ? MAX_KEPT_BYTES : MAX_FAILED_BYTES
}

/** The members for headers and properties, at most 40 KiB (seed 002 §8.3: a retry preserves them). */
function besideBody(raw: LiveDelivery['raw']): string {
  const { headers, properties } = foreignMessage(raw)
  const own = PUBLISHERS_OWN.map((name): [string, unknown] => {
    const text = headers[name]
    return [name, typeof text === 'string' ? cleanText(text) : undefined]
  })
  const { priority, timestamp, correlationId, replyTo, appId } = properties
  const named = { correlation_id: correlationId, reply_to: replyTo, app_id: appId }
  const told = objectOf([...Object.entries(cleanHeaders(headers)), ...own])
  return `,"headers":${told},"properties":${objectOf(Object.entries({ priority, timestamp, ...named }))}`
}

/** A JSON object without members that are undefined or that a gateway would refuse. */
function objectOf(members: readonly (readonly [string, unknown])[]): string {
  return JSON.stringify(Object.fromEntries(members.filter(([, value]) => isTellable(value))))
}

/** Whether the gateway can be asked to hold the job until its next attempt. */
export function canBeHeld({ isKnown }: MessageJob, { raw: { content } }: LiveDelivery): boolean {
  return isKnown || content.length <= MAX_KEPT_BYTES
}
