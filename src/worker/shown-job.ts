import type { LiveDelivery } from '../broker/delivery.ts'
import { BARE_EVENT_BYTES, type EventName, MAX_EVENT_BYTES } from './event-text.ts'
import type { TokenJob } from './token-job.ts'

/** Of a body that goes along with what is only said. */
const MAX_SAID_BYTES = 64 * 1024 - 4_096
/** Of one that the gateway must have; the rest of its event is the error, 100,000 bytes at most. */
const MAX_KEPT_BYTES = 900_000

const BYTE_ORDER_MARK = /^\ufeff/

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
  { raw: { content } }: LiveDelivery,
  { event, beside, isLeft = false }: { event: EventName; beside: string; isLeft?: boolean },
): string {
  // Who gives it back tells of no more than that; who runs it next shows it.
  if (event === 'released') return ''
  if (isKnown && !isLeft) return ''
  const room = MAX_EVENT_BYTES - BARE_EVENT_BYTES - Buffer.byteLength(beside)
  const most = event === 'failed' ? MAX_KEPT_BYTES : Math.min(room, MAX_SAID_BYTES)
  if (content.length > most) return ''
  const body = content.toString().replace(BYTE_ORDER_MARK, '')
  return `,"job":${body},"max_attempts":${maxAttempts}`
}

/** May the gateway be asked to hold the job until its next attempt? */
export function canBeHeld({ isKnown }: TokenJob, { raw: { content } }: LiveDelivery): boolean {
  return isKnown || content.length <= MAX_KEPT_BYTES
}
