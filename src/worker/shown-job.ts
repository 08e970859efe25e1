import type { LiveDelivery } from '../broker/delivery.ts'
import type { TokenJob } from './token-job.ts'

/** Of a body that goes along with what is only said: a result of a million bytes has room too. */
const MAX_SAID_BYTES = 64 * 1024 - 4_096
/** Of one that the gateway must have; the rest of its message is the error, 80 KiB at most. */
const MAX_KEPT_BYTES = 900_000

/**
 * The members of a reported event that show the job itself, for a gateway that has never heard of
 * it: so that it is known over HTTP, and that a retry may be left to the gateway.
 */
export function shownMembers(
  { isKnown, maxAttempts }: TokenJob,
  { raw: { content } }: LiveDelivery,
  isNeeded: boolean,
): string {
  if (isKnown || content.length > (isNeeded ? MAX_KEPT_BYTES : MAX_SAID_BYTES)) return ''
  return `,"job":${content.toString()},"max_attempts":${maxAttempts}`
}

/** May the gateway be asked to hold the job until its next attempt? */
export function canBeHeld({ isKnown }: TokenJob, { raw: { content } }: LiveDelivery): boolean {
  return isKnown || content.length <= MAX_KEPT_BYTES
}
