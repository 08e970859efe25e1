/** What may be in a header table that we publish: our own `x-ojs-*`, and kept headers of native messages. */
import { membersOf } from '../../job/values/json-value.ts'

/** Limit of AMQP short strings: most properties, names, routing keys. */
export const MAX_SHORT_BYTES = 255
const MAX_TEXT_BYTES = 1_024
const MAX_FOREIGN_BYTES = 8_192
const MAX_NAME_BYTES = 128
const MAX_DEPTH = 8

/**
 * Headers that RabbitMQ sets, or interprets when a client sends them. A kept `x-death` can make 3.10 drop the
 * message silently as a cycle; `CC` and `BCC` route copies.
 */
const BROKER_NAMES = new Set([
  ...['x-death', 'x-delivery-count', 'x-acquired-count', 'x-received-from', 'x-delay', 'x-match'],
  ...['cc', 'bcc', 'expiration', 'x-message-ttl', 'x-expires', 'x-stream-offset', '__proto__'],
])
const BROKER_PREFIXES = ['x-first-death-', 'x-last-death-', 'x-shovel', 'x-opt-']

/** We write these from the row at every publish; a foreign value would be stale. */
export const OJS_HEADERS = {
  queue: 'x-ojs-queue',
  attempt: 'x-ojs-attempt',
  maxAttempts: 'x-ojs-max-attempts',
  createdAt: 'x-ojs-created-at',
  enqueuedAt: 'x-ojs-enqueued-at',
  scheduledAt: 'x-ojs-scheduled-at',
  tags: 'x-ojs-tags',
  traceId: 'x-ojs-trace-id',
  traceState: 'x-ojs-trace-state',
  idempotencyKey: 'x-ojs-idempotency-key',
  errorMessage: 'x-ojs-error-message',
  errorCode: 'x-ojs-error-code',
  /** Set by the native producer: no gateway knows this job yet. Absent from the first republish on. */
  native: 'x-ojs-native',
} as const

const OWN_NAMES: ReadonlySet<string> = new Set(Object.values(OJS_HEADERS))

export type HeaderTable = Record<string, unknown>

const PRINTABLE_ASCII = /^[\x20-\x7e]*$/

/** Replaces control characters and lone surrogates by spaces, and cuts to `maxBytes` of UTF-8. */
export function cleanText(text: string, maxBytes = MAX_TEXT_BYTES): string {
  // Fast path for nearly every text, at a third of the cost: this runs several times per job message.
  if (text.length <= maxBytes && PRINTABLE_ASCII.test(text)) return text
  return cut(text.replace(/[\p{Cc}\p{Cs}]/gu, ' '), maxBytes)
}

/** Cleans a comma-separated list (seed 002 §6.2); a list that is too long loses its last items. */
export function cleanList(text: string): string {
  const kept = cleanText(text)
  if (kept === text) return kept
  const isWhole = kept.length === cleanText(text, Number.POSITIVE_INFINITY).length
  return isWhole ? kept : kept.slice(0, Math.max(0, kept.lastIndexOf(',')))
}

function cut(text: string, maxBytes: number): string {
  if (text.length * 3 <= maxBytes) return text
  const bytes = Buffer.from(text)
  if (bytes.length <= maxBytes) return text
  let end = maxBytes
  // Do not cut into a character: step back over its continuation bytes.
  while (end > 0 && ((bytes[end] ?? 0) & 0b1100_0000) === 0b1000_0000) end -= 1
  return bytes.toString('utf8', 0, end)
}

/**
 * The headers of a native message that every republish restores: JSON-able, at most 8 KiB, without RabbitMQ's
 * headers and those we write ourselves. Byte arrays are kept as `{ '!': 'bytes' }` with base64;
 * `restoreHeaders` undoes that. A number keeps its value; its AMQP width is not known.
 */
export function cleanHeaders(headers: Readonly<HeaderTable>): HeaderTable {
  const kept: [string, unknown][] = []
  let left = MAX_FOREIGN_BYTES
  for (const [name, value] of Object.entries(headers)) {
    if (!isForeign(name)) continue
    const clean = cleanValue(value, 0)
    if (clean === undefined) continue
    const bytes = Buffer.byteLength(name) + Buffer.byteLength(JSON.stringify(clean))
    if (bytes > left) continue
    left -= bytes
    kept.push([name, clean])
  }
  return Object.fromEntries(kept)
}

/**
 * Turns headers kept by `cleanHeaders` into amqplib's form: byte arrays become buffers, and whole numbers
 * int32 where they fit. amqplib reads every width alike and would write the narrowest, so that `.(int32)` of
 * a Go worker, or a cast to Integer in Java, would work for the first attempt only.
 */
export function restoreHeaders(headers: Readonly<HeaderTable>): HeaderTable {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, restoreValue(value)]),
  )
}

function isForeign(name: string): boolean {
  const lower = name.toLowerCase()
  return (
    isUsableName(name) &&
    !OWN_NAMES.has(lower) &&
    !BROKER_NAMES.has(lower) &&
    !BROKER_PREFIXES.some((prefix) => lower.startsWith(prefix))
  )
}

function isUsableName(name: string): boolean {
  return name !== '' && name !== '!' && cleanText(name, MAX_NAME_BYTES) === name
}

/** Undefined: the value cannot be kept. */
function cleanValue(value: unknown, depth: number): unknown {
  switch (typeof value) {
    case 'boolean':
      return value
    case 'string':
      return cleanText(value, MAX_FOREIGN_BYTES)
    case 'number':
      return isEncodable(value) ? value : undefined
    case 'object':
      if (value === null) return null
      return depth < MAX_DEPTH ? cleanObject(value, depth + 1) : undefined
    default:
      return undefined
  }
}

function cleanObject(value: object, depth: number): unknown {
  if (Buffer.isBuffer(value)) return { '!': 'bytes', value: value.toString('base64') }
  if (Array.isArray(value)) {
    return value.map((item) => cleanValue(item, depth)).filter((item) => item !== undefined)
  }
  if ('!' in value) return cleanTyped(value)
  const kept: [string, unknown][] = []
  for (const [name, member] of Object.entries(value)) {
    const clean = cleanValue(member, depth)
    if (clean !== undefined && isUsableName(name) && name !== '__proto__') kept.push([name, clean])
  }
  return Object.fromEntries(kept)
}

/**
 * Keeps only known values of amqplib's notation for types without a JavaScript equivalent. amqplib throws on
 * an unknown one, so a foreign table with its own member `!` could keep its job from being published.
 */
function cleanTyped(value: { '!'?: unknown; value?: unknown }): unknown {
  const inner = value.value
  // In our own form: headers that a native worker reports have been cleaned before.
  if (value['!'] === 'bytes' && typeof inner === 'string') return { '!': 'bytes', value: inner }
  if (value['!'] === 'timestamp' && Number.isSafeInteger(inner) && Number(inner) >= 0) {
    return { '!': 'timestamp', value: inner }
  }
  if (value['!'] === 'decimal') {
    const { places, digits } = membersOf(inner)
    if (isUint(places, 8) && isUint(digits, 32)) {
      return { '!': 'decimal', value: { places, digits } }
    }
  }
  return undefined
}

function isUint(value: unknown, bits: number): boolean {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) < 2 ** bits
}

function isInt32(value: number): boolean {
  return Number.isInteger(value) && value >= -(2 ** 31) && value < 2 ** 31
}

/** amqplib encodes whole numbers as int64 when they fit, and throws on values that fit neither way. */
function isEncodable(value: number): boolean {
  if (!Number.isFinite(value)) return false
  return Math.abs(value) < 2 ** 50 || (Number.isInteger(value) && value >= -(2 ** 63))
}

function restoreValue(value: unknown): unknown {
  if (typeof value === 'number') return isInt32(value) ? { '!': 'int32', value } : value
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(restoreValue)
  if ('!' in value) {
    const { '!': type, value: inner } = value as { '!': unknown; value?: unknown }
    return type === 'bytes' && typeof inner === 'string' ? Buffer.from(inner, 'base64') : value
  }
  return restoreHeaders(value as HeaderTable)
}
