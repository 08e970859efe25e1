// Limits on texts of clients and workers that the ledger stores.

/** Longest job type, in characters; all of them are ASCII. */
export const MAX_TYPE = 255

/** Longest `code` and `type` of an error, in characters. */
export const MAX_CODE = 255

/** Longest `message` of an error, in characters. */
export const MAX_MESSAGE = 10_000

/** Largest result as JSON text, over HTTP and AMQP alike (OJS core). */
export const MAX_RESULT_BYTES = 1_048_576

const ENCODER = new TextEncoder()

/** The length of the text in UTF-8, in bytes. */
export function utf8Bytes(text: string): number {
  return ENCODER.encode(text).length
}

/** Cuts a text to `max` UTF-16 units, but never between two surrogates: half a pair is not valid UTF-8. */
export function cut(text: string, max: number): string {
  if (text.length <= max) return text
  const last = text.charCodeAt(max - 1)
  const isHighSurrogate = last >= 0xd800 && last <= 0xdbff
  return text.slice(0, isHighSurrogate ? max - 1 : max)
}

/** The text without what a ledger cannot keep in a column: NUL and halves of surrogate pairs become U+FFFD. */
export function storable(text: string): string {
  return text.replace(/[\0\p{Cs}]/gu, '\ufffd')
}

/** The largest count of AMQP's `int32`, in which attempts and their maximum travel (seed 002 §6.2). */
export const MAX_INT32 = 2 ** 31 - 1
