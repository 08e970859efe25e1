/** Bounds on what strangers wrote and the ledger keeps. */

/** Of a job's type, in characters; all of them are ASCII. */
export const MAX_TYPE = 255

/** Of an error's `code` and `type`, in characters. */
export const MAX_CODE = 255

/** Of an error's `message`, in characters. */
export const MAX_MESSAGE = 10_000

/** Of a result as JSON text, by whichever door its worker says it (ojs-digest §2.3). */
export const MAX_RESULT_BYTES = 1_048_576

const ENCODER = new TextEncoder()

/** Bytes of the text in UTF-8. */
export function utf8Bytes(text: string): number {
  return ENCODER.encode(text).length
}

/** At most `max` UTF-16 units; never half a character, which is no text in UTF-8 any more. */
export function cut(text: string, max: number): string {
  if (text.length <= max) return text
  const last = text.charCodeAt(max - 1)
  const isHighSurrogate = last >= 0xd800 && last <= 0xdbff
  return text.slice(0, isHighSurrogate ? max - 1 : max)
}
