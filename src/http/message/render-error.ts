/** The one place where HTTP renders an error. */
import type { IncomingMessage } from 'node:http'
import type { ErrorRequestHandler, Request } from 'express'
import { errorBody, invalidField, OjsError } from '../../errors.ts'
import type { Logger } from '../../logger.ts'
import { lingerAfterAnswer } from './lingering-close.ts'
import { type Answerable, answer } from './respond.ts'
import { ACCEPTED_CODINGS } from './unpacking.ts'

/** The one place where HTTP renders errors; the last step of the pipeline. */
export function errorRenderer(logger: Logger): ErrorRequestHandler {
  // Express recognises an error handler by its four parameters.
  return (thrown: unknown, request, response, _next) => {
    sendError(response, visibleError(thrown, request, logger))
  }
}

/** Sends an error, unless an answer has begun already or the connection is gone. */
export function sendError(
  response: Answerable,
  error: OjsError,
  ...extra: readonly string[]
): void {
  if (response.headersSent || response.destroyed) return
  if (leavesMuchUnread(error, response.req)) sendLastError(response, error)
  else write(response, error, extra)
}

const SKIPPED_BYTES = 65_536

/**
 * Whether a large part of the body is unread. Node would go on reading it to reach the next request, but a
 * refused client must not get to send a large body.
 */
function leavesMuchUnread({ status }: OjsError, { complete, headers }: IncomingMessage): boolean {
  if (complete) return false
  const isEndless = headers['transfer-encoding'] !== undefined
  return status === 413 || isEndless || Number(headers['content-length']) > SKIPPED_BYTES
}

/** Sends an error to a client that may still be sending, and closes the connection. */
export function sendLastError(response: Answerable, error: OjsError): void {
  lingerAfterAnswer(response.req.socket)
  write(response, error, ['Connection', 'close'])
}

function write(response: Answerable, error: OjsError, extra: readonly string[]): void {
  const text = errorBody(error, response.req.requestId)
  answer(response, error.status, text, ...errorHeaders(error), ...extra)
}

/**
 * The headers of an error: `Retry-After` where it has one, `WWW-Authenticate` on every 401 (RFC 9110 §15.5.2,
 * RFC 6750 §3), `Accept-Encoding` on every 415 (RFC 9110 §12.5.3).
 */
export function errorHeaders(error: OjsError): string[] {
  if (error.status === 401) return ['WWW-Authenticate', challenge(error)]
  if (error.status === 415) return ['Accept-Encoding', ACCEPTED_CODINGS]
  const seconds = error.retryAfterSeconds
  return seconds === undefined ? [] : ['Retry-After', String(seconds)]
}

function challenge({ details }: OjsError): string {
  const isUnknown = details?.['reason'] === 'invalid_token'
  return isUnknown ? 'Bearer realm="ojs", error="invalid_token"' : 'Bearer realm="ojs"'
}

/** The error as the client may see it. What lies behind a 500 is only logged, under the same request id. */
export function visibleError(thrown: unknown, request: Request, logger: Logger): OjsError {
  const error = toOjsError(thrown)
  if (error.status === 500) {
    const { requestId, method, path, admission } = request
    const key = admission.key?.name
    logger.error({ err: thrown, requestId, key, method, path }, 'request failed')
  }
  return error
}

function toOjsError(thrown: unknown): OjsError {
  if (thrown instanceof OjsError) return thrown
  // The router throws this for path parameters that it cannot decode.
  if (thrown instanceof URIError) {
    return invalidField('path', 'The path holds a malformed percent-encoding.')
  }
  return new OjsError('backend_error', 'The server failed to process the request.', {
    cause: thrown,
  })
}
