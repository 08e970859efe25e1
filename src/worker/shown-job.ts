import type { LiveDelivery } from '../broker/delivery.ts'
import { cleanHeaders, cleanText, OJS_HEADERS } from '../broker/headers.ts'
import { foreignMessage } from '../broker/message.ts'
import { jsonText } from '../job/json-value.ts'
import { BARE_EVENT_BYTES, type EventName, isTellable, MAX_EVENT_BYTES } from './event-text.ts'
import type { TokenJob } from './token-job.ts'

/** Of a body that goes along with what is only said. */
const MAX_SAID_BYTES = 64 * 1024 - 4_096
/**
 * Of one whose retry is left to the gateway, which must have it: so small that no gateway refuses the
 * report, whatever its `OJS_MAX_BODY_BYTES`. The rest of its event is the error, 100,000 bytes at most.
 */
const MAX_KEPT_BYTES = 900_000
/**
 * Of any other that has failed. A gateway takes reports of 1 MiB and three times its
 * `OJS_MAX_BODY_BYTES`, 7 MiB unless it is configured otherwise; it may handle 32 of them at a time, and
 * has each several times over in its heap. One that refuses this has never heard of the job either way.
 */
const MAX_FAILED_BYTES = 3 * 1024 * 1024

/** Those of OJS that a gateway cannot know better than the publisher. */
const PUBLISHERS_OWN = [
  ...[OJS_HEADERS.createdAt, OJS_HEADERS.enqueuedAt, OJS_HEADERS.scheduledAt, OJS_HEADERS.tags],
  ...[OJS_HEADERS.traceId, OJS_HEADERS.traceState, OJS_HEADERS.idempotencyKey],
]

/**
 * The members of a reported event that show the job itself, for a gateway that has never heard of
 * it: so that it is known over HTTP, and that a retry may be left to the gateway. None where there
 * is no room for it `beside` the others.
 *
 * `isLeft`: the retry is left to the gateway. Then a job that it should have is shown, too: one that
 * came from another broker, or is newer than a ledger that was restored, would be lost.
 */
export function shownMembers(
  { isKnown, maxAttempts }: TokenJob,
  { raw }: LiveDelivery,
  { event, beside, isLeft = false }: { event: EventName; beside: string; isLeft?: boolean },
): string {
  // Who gives it back tells of no more than that; who runs it next shows it.
  if (event === 'released') return ''
  if (isKnown && !isLeft) return ''
  const { content } = raw
  const message = besideBody(raw)
  const room = MAX_EVENT_BYTES - BARE_EVENT_BYTES - Buffer.byteLength(beside + message)
  const most = event === 'failed' ? mostOfFailed(isLeft) : Math.min(room, MAX_SAID_BYTES)
  if (content.length > most) return ''
  return `,"job":${jsonText(content)},"max_attempts":${maxAttempts}${message}`
}

function mostOfFailed(isLeft: boolean): number {
  return isLeft ? MAX_KEPT_BYTES : MAX_FAILED_BYTES
}

/** Headers and properties, at most 40 KiB (seed 002 §8.3: a retry preserves them). */
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

/** Without what is undefined, and what a gateway would not take. */
function objectOf(members: readonly (readonly [string, unknown])[]): string {
  return JSON.stringify(Object.fromEntries(members.filter(([, value]) => isTellable(value))))
}

/** May the gateway be asked to hold the job until its next attempt? */
export function canBeHeld({ isKnown }: TokenJob, { raw: { content } }: LiveDelivery): boolean {
  return isKnown || content.length <= MAX_KEPT_BYTES
}
