/** Request id, trace context and `Idempotency-Key` from the headers, for operations and log lines. */
import type { IncomingHttpHeaders } from 'node:http'
import { invalidField } from '../../errors.ts'
import { isTraceparent, isTracestate } from '../../job/trace/traceparent.ts'
import type { RequestContext } from '../../operations/deps.ts'
import { uuid7 } from '../../uuid.ts'

const MAX_REQUEST_ID = 128
const PRINTABLE = /^[\x20-\x7e]+$/
const NOT_PRINTABLE = /[^\x20-\x7e]/g

/** `req_<UUIDv7>` (seed 001 §19.3). */
export function mintRequestId(): string {
  return `req_${uuid7()}`
}

/**
 * Returns the client's `X-Request-Id`, else a new one (seed 001 §19.2). An id that cannot be echoed safely is
 * cleaned, not refused: no job should be turned away because of its request id.
 */
export function requestIdOf(header: string | undefined): string {
  if (header === undefined) return mintRequestId()
  const id = header.trim()
  if (id.length <= MAX_REQUEST_ID && PRINTABLE.test(id)) return id
  const cleaned = id.replace(NOT_PRINTABLE, '').slice(0, MAX_REQUEST_ID).trim()
  return cleaned === '' ? mintRequestId() : cleaned
}

/** What operations are told about a request. Throws 400 for an unusable `Idempotency-Key`. */
export function requestContext(
  requestId: string,
  headers: IncomingHttpHeaders,
  principal: string | undefined,
): RequestContext {
  const context: RequestContext = { requestId }
  if (principal !== undefined) context.principal = principal
  const traceparent = lastOf(headerOf(headers, 'traceparent'))
  if (traceparent !== undefined && isTraceparent(traceparent)) {
    context.traceparent = traceparent
    const tracestate = headerOf(headers, 'tracestate')
    if (tracestate !== undefined && isTracestate(tracestate)) context.tracestate = tracestate
  }
  const key = headerOf(headers, 'idempotency-key')
  if (key !== undefined) context.idempotencyKey = idempotencyKey(key)
  return context
}

/** The last item: an instrumented `fetch` appends its `traceparent` to the caller's, and is the innermost. */
function lastOf(list: string | undefined): string | undefined {
  return list?.slice(list.lastIndexOf(',') + 1).trim()
}

const MAX_IDEMPOTENCY_KEY = 256

/** Never cleaned, only taken or refused: it becomes an AMQP header and a uniqueness key. */
function idempotencyKey(key: string): string {
  if (key.length <= MAX_IDEMPOTENCY_KEY && PRINTABLE.test(key)) return key
  throw invalidField(
    'Idempotency-Key',
    `The Idempotency-Key header must be 1 to ${MAX_IDEMPOTENCY_KEY} printable ASCII characters.`,
    { max_length: MAX_IDEMPOTENCY_KEY },
  )
}

/** A header as one string. Node joins these headers if they are repeated, but its types do not say so. */
export function headerOf(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value.join(', ') : value
}
