import { isUtf8 } from 'node:buffer'
import { invalidField, OjsError } from '../errors.ts'
import { isJsonObject, jsonTypeName } from '../job/json-value.ts'

export interface JsonLimits {
  /** Arrays and objects inside one another, the outermost object included. */
  maxDepth: number
}

/** ojs-digest §2.3: 32 levels; enough for every OJS document, too little to exhaust a stack. */
export const JSON_LIMITS: JsonLimits = { maxDepth: 32 }

/** The limits of an object with a list of such documents: each may nest as deep as a single one. */
export function listOf({ maxDepth }: JsonLimits): JsonLimits {
  return { maxDepth: maxDepth + 2 }
}

/** Batches (seed 001 §9.2) and workflows. */
export const LIST_LIMITS = listOf(JSON_LIMITS)

/**
 * Parses the bytes of an HTTP body or a foreign AMQP message, which must be a JSON object. Throws `OjsError`
 * 400: `invalid_payload` for what is not JSON in UTF-8 (seed 001 §4.2), `invalid_request` for what is too
 * deep, is not an object (seed 001 §6.1), or has a number that JavaScript would change.
 *
 * A member named `__proto__` is an own member like any other: `JSON.parse` defines members, it does not
 * assign them.
 *
 * `afford` is called before any value is built, with the bytes of heap that the values will take beside their
 * text. If it throws, that error is thrown.
 */
export function parseJsonObject(
  bytes: Buffer,
  limits: JsonLimits = JSON_LIMITS,
  afford: (bytes: number) => void = () => {},
): Record<string, unknown> {
  if (!isUtf8(bytes)) throw notJson('The body is not valid UTF-8.')
  const start = hasByteOrderMark(bytes) ? 3 : 0
  if (bytes.length === start) throw notJson('The body is empty; a JSON object is expected.')
  const doubts = scan(bytes, start, limits.maxDepth)
  if (doubts.tooDeepAt !== NOWHERE) throw tooDeep(bytes, doubts.tooDeepAt, limits)
  afford(doubts.heapBytes)
  const value = parse(bytes, start)
  if (doubts.inexactAt !== NOWHERE) throw inexact(bytes, doubts.inexactAt)
  if (isJsonObject(value)) return value
  throw invalidField('body', 'The body must be a JSON object.', {
    expected: 'object',
    received: jsonTypeName(value),
  })
}

/**
 * Throws as `parseJsonObject` would if the text is too deep or has a number that JavaScript would change, but
 * builds nothing. The text must be known to be a JSON object.
 */
export function refuseUnkeepable(bytes: Buffer): void {
  const doubts = scan(bytes, 0, JSON_LIMITS.maxDepth)
  if (doubts.tooDeepAt !== NOWHERE) throw tooDeep(bytes, doubts.tooDeepAt, JSON_LIMITS)
  if (doubts.inexactAt !== NOWHERE) throw inexact(bytes, doubts.inexactAt)
}

/** The heap that the values take beside their text, at most. Works for any text of any depth. */
export function heapOfValues(bytes: Buffer): number {
  return scan(bytes, 0, Number.POSITIVE_INFINITY).heapBytes
}

const NOWHERE = -1
export const QUOTE = 0x22
const PLUS = 0x2b
export const COMMA = 0x2c
const MINUS = 0x2d
const POINT = 0x2e
const ZERO = 0x30
const NINE = 0x39
export const COLON = 0x3a
export const OPEN_ARRAY = 0x5b
const BACKSLASH = 0x5c
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
/** `E` | 0x20 = `e`. */
const EXPONENT = 0x65

interface Doubts {
  tooDeepAt: number
  inexactAt: number
  /** The most that the values take beside their text; measured with V8 11 (Node 20). */
  heapBytes: number
}

/** `{}` takes 64 bytes, and 64 more where its keys are no other's. */
const HEAP_OF_NEST = 72
/** A string takes this as a key that no other object has, and 32 as a value. */
const HEAP_OF_STRING = 48
const HEAP_OF_NUMBER = 16

/**
 * Scans the bytes once, before anything is built from them: finds the place where they nest too deep, the
 * first number that a double cannot hold, and the heap of the values. Does not check the grammar;
 * `JSON.parse` refuses what is not JSON.
 */
function scan(bytes: Buffer, start: number, maxDepth: number): Doubts {
  const end = bytes.length
  let inexactAt = NOWHERE
  let heapBytes = 0
  let depth = 0
  let at = start
  while (at < end) {
    const byte = byteAt(bytes, at)
    if (byte === QUOTE) {
      heapBytes += HEAP_OF_STRING
      at = afterString(bytes, at)
    } else if (byte <= NINE && (byte >= ZERO || byte === MINUS)) {
      heapBytes += HEAP_OF_NUMBER
      const after = afterNumber(bytes, at)
      if (inexactAt === NOWHERE && !isExact(bytes, at, after)) inexactAt = at
      at = after
    } else {
      const change = depthChange(byte)
      if (change === 1) heapBytes += HEAP_OF_NEST
      depth += change
      if (depth > maxDepth) return { tooDeepAt: at, inexactAt, heapBytes }
      at++
    }
  }
  return { tooDeepAt: NOWHERE, inexactAt, heapBytes }
}

export function depthChange(byte: number): -1 | 0 | 1 {
  // `[` and `{` differ in one bit, and so do `]` and `}`.
  const bracket = byte & ~0x20
  if (bracket === OPEN_ARRAY) return 1
  return bracket === CLOSE_ARRAY ? -1 : 0
}

/** 0 past the end, which has no meaning in JSON. */
export function byteAt(bytes: Buffer, at: number): number {
  return bytes[at] ?? 0
}

/** The offset after the string that opens at `at`. */
export function afterString(bytes: Buffer, at: number): number {
  const end = bytes.length
  for (let i = at + 1; i < end; i++) {
    const byte = byteAt(bytes, i)
    if (byte === QUOTE) return i + 1
    if (byte === BACKSLASH) i++
  }
  return end
}

/** The offset after the number that starts at `at`: signs, digits, points and exponents in any order. */
function afterNumber(bytes: Buffer, at: number): number {
  let i = at + 1
  while (isNumeric(byteAt(bytes, i))) i++
  return i
}

function isNumeric(byte: number): boolean {
  if (byte >= ZERO && byte <= NINE) return true
  return byte === POINT || (byte | 0x20) === EXPONENT || byte === MINUS || byte === PLUS
}

const SHORTEST_OVERFLOW = '1e309'.length
const SAFE_DIGITS = 15
const SAFE_FRACTION = 308

/**
 * False for an integer that JavaScript would write with other digits, and for a number that becomes Infinity,
 * which `JSON.stringify` writes as null (ojs-digest §2.2). A number with a fraction or an exponent means a
 * double, so rounding it is right. `JSON.stringify` writes many of those as integers: 1e18 becomes
 * 1000000000000000000, which is exact.
 */
function isExact(bytes: Buffer, from: number, to: number): boolean {
  const length = to - from
  if (length < SHORTEST_OVERFLOW) return true
  switch (notationOf(bytes, from, to)) {
    case 'integer':
      return length <= SAFE_DIGITS || isRoundTrip(bytes, from, to)
    case 'fraction':
      return length <= SAFE_FRACTION || Number.isFinite(numberAt(bytes, from, to))
    case 'exponent':
      return Number.isFinite(numberAt(bytes, from, to))
  }
}

function notationOf(bytes: Buffer, from: number, to: number): 'integer' | 'fraction' | 'exponent' {
  let isFraction = false
  for (let i = from; i < to; i++) {
    const byte = byteAt(bytes, i)
    if ((byte | 0x20) === EXPONENT) return 'exponent'
    if (byte === POINT) isFraction = true
  }
  return isFraction ? 'fraction' : 'integer'
}

function isRoundTrip(bytes: Buffer, from: number, to: number): boolean {
  return String(numberAt(bytes, from, to)) === bytes.toString('latin1', from, to)
}

function numberAt(bytes: Buffer, from: number, to: number): number {
  return Number(bytes.toString('latin1', from, to))
}

function parse(bytes: Buffer, start: number): unknown {
  try {
    return JSON.parse(bytes.toString('utf8', start))
  } catch (cause) {
    throw notJson('The body is not valid JSON.', cause)
  }
}

function hasByteOrderMark(bytes: Buffer): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
}

/** Seed 004 and the public suite: an unparsable or empty body is `invalid_payload`. */
function notJson(message: string, cause?: unknown): OjsError {
  return new OjsError('invalid_payload', message, { details: { field: 'body' }, cause })
}

function tooDeep(bytes: Buffer, at: number, limits: JsonLimits): OjsError {
  const field = fieldAt(bytes, at)
  return invalidField(field, `The body nests deeper than ${limits.maxDepth} levels.`, {
    max_depth: limits.maxDepth,
  })
}

function inexact(bytes: Buffer, at: number): OjsError {
  const field = fieldAt(bytes, at)
  const received = bytes.toString('latin1', at, Math.min(afterNumber(bytes, at), at + 40))
  return invalidField(
    field,
    `The number in '${field}' cannot be kept exactly; send it as a string.`,
    { received, reason: 'unsafe_number' },
  )
}

const MAX_FIELD = 200

/** The path of an offset in the document, such as `args[0].n`. Only for error messages. */
function fieldAt(bytes: Buffer, target: number): string {
  const open: { key: string; index: number }[] = []
  let at = 0
  while (at < target) {
    const byte = byteAt(bytes, at)
    const inner = open.at(-1)
    if (byte === QUOTE) {
      const after = afterString(bytes, at)
      if (inner) inner.key = bytes.toString('utf8', at + 1, after - 1)
      at = after
      continue
    }
    if (byte === OPEN_ARRAY) open.push({ key: '', index: 0 })
    else if (byte === OPEN_OBJECT) open.push({ key: '', index: NOWHERE })
    else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) open.pop()
    else if (byte === COMMA && inner && inner.index !== NOWHERE) inner.index++
    at++
  }
  const path = open.map(({ key, index }) => (index === NOWHERE ? `.${key}` : `[${index}]`)).join('')
  return path.replace(/^\./, '').slice(0, MAX_FIELD) || 'body'
}
