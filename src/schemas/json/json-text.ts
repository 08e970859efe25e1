/** Parses JSON from outside within limits of depth, values and numbers. */
import { isUtf8 } from 'node:buffer'
import { invalidField, OjsError } from '../../errors.ts'
import { isJsonObject, jsonTypeName } from '../../job/values/json-value.ts'
import { numberEnd } from './exact-number.ts'
import { fieldAt, NOWHERE, Scan, type ScanLimits, Spans } from './json-scan.ts'
import { slicedValue } from './json-slices.ts'

export type JsonLimits = ScanLimits

/** OJS core: 32 levels; enough for every OJS document, too little to exhaust a stack. */
export const JSON_LIMITS: JsonLimits = { maxDepth: 32 }

/** The limits of an object with a list of such documents: each may be as deep and as rich as a single one. */
export function listOf(item: JsonLimits): JsonLimits {
  return { ...item, maxDepth: item.maxDepth + 2, partDepth: 2 }
}

/**
 * Two million bytes of ordinary JSON take half of this, and of `{}` three times as much: the time that JSON
 * takes depends on its values, not on its length.
 */
const LEAST_HEAP = 16 * 1024 * 1024

/** `limits` with that for the values of a document of `maxBytes`. */
export function valueLimits(
  limits: JsonLimits,
  maxBytes: number,
): JsonLimits & { maxHeap: number } {
  return { ...limits, maxHeap: Math.max(LEAST_HEAP, 8 * maxBytes) }
}

/** Workflows. */
export const LIST_LIMITS = listOf(JSON_LIMITS)

export type Afford = (bytes: number) => void

/**
 * Parses the bytes of an HTTP body or a foreign AMQP message, which must be a JSON object. Throws `OjsError`
 * 400: `invalid_payload` for what is not JSON in UTF-8 (seed 001 §4.2), `invalid_request` for what is too
 * deep, is not an object (seed 001 §6.1), or has a number that JavaScript would change; 413 for too many
 * values.
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
  afford: Afford = () => {},
): Record<string, unknown> {
  const start = startOf(bytes)
  const state = new Scan(start, limits)
  state.go(bytes, bytes.length)
  refuseBeyond(bytes, state, limits)
  afford(state.heapBytes)
  try {
    return objectIn(bytes, state, JSON.parse(bytes.toString('utf8', start)))
  } catch (error) {
    throw explained(error)
  }
}

/** So many bytes are scanned or parsed within some milliseconds. */
export const SLICE_BYTES = 65_536

/** As `parseJsonObject`, but pauses (`yield`) where something else may run, for texts that take long. */
export function* parseJsonInSlices(
  bytes: Buffer,
  limits: JsonLimits,
  afford: Afford = () => {},
): Generator<void, Record<string, unknown>> {
  const spans = new Spans(SLICE_BYTES)
  const start = startOf(bytes)
  const state = new Scan(start, limits, spans)
  while (state.go(bytes, Math.min(state.at + SLICE_BYTES, bytes.length))) yield
  refuseBeyond(bytes, state, limits)
  if (state.depth !== 0) throw notJson('The body is not valid JSON.')
  afford(state.heapBytes)
  try {
    return objectIn(bytes, state, yield* slicedValue(bytes, start, spans))
  } catch (error) {
    throw explained(error)
  }
}

/** Where the JSON begins. Throws if there is none. */
function startOf(bytes: Buffer): number {
  if (!isUtf8(bytes)) throw notJson('The body is not valid UTF-8.')
  const start = hasByteOrderMark(bytes) ? 3 : 0
  if (bytes.length === start) throw notJson('The body is empty; a JSON object is expected.')
  return start
}

function refuseBeyond(bytes: Buffer, state: Scan, limits: JsonLimits): void {
  if (state.tooDeepAt !== NOWHERE) throw tooDeep(bytes, state.tooDeepAt, limits)
  if (state.tooManyAt !== NOWHERE) throw tooMany(bytes, state.tooManyAt)
}

function objectIn(bytes: Buffer, { inexactAt }: Scan, value: unknown): Record<string, unknown> {
  if (inexactAt !== NOWHERE) throw inexact(bytes, inexactAt)
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
  const state = new Scan(0, JSON_LIMITS)
  state.go(bytes, bytes.length)
  refuseBeyond(bytes, state, JSON_LIMITS)
  if (state.inexactAt !== NOWHERE) throw inexact(bytes, state.inexactAt)
}

/** The heap that the values take beside their text, at most. Works for any text of any depth. */
export function heapOfValues(bytes: Buffer): number {
  const state = new Scan(0, { maxDepth: Number.POSITIVE_INFINITY })
  state.go(bytes, bytes.length)
  return state.heapBytes
}

/** The same, in slices. */
export function* heapInSlices(bytes: Buffer): Generator<void, number> {
  const state = new Scan(0, { maxDepth: Number.POSITIVE_INFINITY })
  while (state.go(bytes, Math.min(state.at + SLICE_BYTES, bytes.length))) yield
  return state.heapBytes
}

function explained(error: unknown): unknown {
  return error instanceof SyntaxError ? notJson('The body is not valid JSON.', error) : error
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

/** The scan stops at the first value beyond the limit, so its place says little. */
function tooMany(bytes: Buffer, at: number): OjsError {
  const details = { field: fieldAt(bytes, at), reason: 'too_many_values' }
  const message = 'The body has too many values for its size limit.'
  return new OjsError('invalid_request', message, { status: 413, details })
}

function inexact(bytes: Buffer, at: number): OjsError {
  const field = fieldAt(bytes, at)
  const received = bytes.toString('latin1', at, Math.min(Math.abs(numberEnd(bytes, at)), at + 40))
  return invalidField(
    field,
    `The number in '${field}' cannot be kept exactly; send it as a string.`,
    { received, reason: 'unsafe_number' },
  )
}
