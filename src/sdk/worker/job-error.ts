/** Turns anything that was thrown into the error of a report. */
import { errorType, text } from './error-type.ts'
import { cut, plainData } from './json-copy.ts'
import type { JobError } from './source.ts'

const MAX_MESSAGE = 8_192
const MAX_STACK = 8_192
const MAX_NAME = 255

/**
 * Turns anything that was thrown into the structured error of seed 001 §10.3: code `handler_error`, the class
 * in `type`, the stack in `details`. `retryable` is true unless the thrown object has `retryable:
 * false`. Members of its own `details` object are copied, and its `code`, which tells errors of Node.js
 * apart. Never throws.
 */
export function jobErrorOf(thrown: unknown): JobError {
  try {
    return isObject(thrown)
      ? errorOfObject(thrown)
      : plainError(text(thrown) ?? messageOfPrimitive(thrown))
  } catch {
    // A revoked proxy, or a getter that throws.
    return plainError('The thrown value cannot be read.')
  }
}

/** A structured error with the given code. */
export function jobError(
  code: string,
  message: string,
  over: Partial<Omit<JobError, 'code' | 'message'>> = {},
): JobError {
  return { code, message: cut(message, MAX_MESSAGE), retryable: true, ...over }
}

function plainError(message: string): JobError {
  return jobError('handler_error', message)
}

function errorOfObject(thrown: Record<string, unknown>): JobError {
  const type = errorType(thrown)
  const { message } = thrown
  return jobError('handler_error', text(message) ?? withoutMessage(thrown, type), {
    type: cut(type, MAX_NAME),
    retryable: thrown['retryable'] !== false,
    details: detailsOf(thrown),
  })
}

function detailsOf(thrown: Record<string, unknown>) {
  const [details, code, cause, stack] = ['details', 'code', 'cause', 'stack'].map((name) =>
    readSafely(thrown, name),
  )
  const own = isObject(details) && !Array.isArray(details) ? plainData(details) : {}
  return {
    ...(isObject(own) && own),
    ...((typeof code === 'string' || typeof code === 'number') && { code: plainData(code) }),
    ...(cause !== undefined && { cause: plainData(cause) }),
    // The message of an AggregateError says next to nothing: the errors inside do.
    ...(thrown instanceof AggregateError && { errors: plainData(readSafely(thrown, 'errors')) }),
    ...(typeof stack === 'string' && { stack: cut(stack, MAX_STACK) }),
  }
}

/**
 * A member, or `undefined` if reading it throws. An unreadable stack (`Error.prepareStackTrace` of a broken
 * source map) must cost only itself, not the message or the `retryable: false` as well.
 */
function readSafely(thrown: object, name: string): unknown {
  try {
    return (thrown as Record<string, unknown>)[name]
  } catch {
    return undefined
  }
}

/** A message for an object that has none. */
function withoutMessage(thrown: Record<string, unknown>, type: string): string {
  // Node.js throws an AggregateError without a message when no address of a host accepts the connection.
  const first: unknown = thrown instanceof AggregateError ? thrown.errors[0] : undefined
  const inner = isObject(first) ? text(first['message']) : undefined
  if (inner !== undefined) return inner
  if (thrown instanceof Error) return `${type} without a message.`
  return `${JSON.stringify(plainData(thrown)) ?? 'An object'} was thrown.`
}

/** A message for thrown values that are no objects: `''`, `undefined`, numbers, symbols. */
function messageOfPrimitive(thrown: unknown): string {
  return `${typeof thrown === 'string' ? 'An empty string' : String(thrown)} was thrown.`
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
