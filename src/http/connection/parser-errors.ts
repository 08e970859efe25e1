/** OJS errors for requests that Node's parser refuses before any pipeline sees them. */
import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { errorBody, OjsError, type OjsErrorOptions } from '../../errors.ts'
import { OJS_MEDIA_TYPE } from '../../job/document.ts'
import type { Admission } from '../message/admission.ts'
import { answerHeaders } from '../message/answer-headers.ts'
import { closeLingering } from '../message/lingering-close.ts'
import { EVERY_METHOD } from '../message/middleware.ts'
import { errorHeaders, sendLastError } from '../message/render-error.ts'
import type { OjsResponse } from '../message/request.ts'
import { mintRequestId } from '../message/request-context.ts'

/**
 * The answer to a request that Node's parser refuses, outside of any pipeline; Node itself would send a bare
 * status line (OJS security). Undefined when there is no client to answer.
 */
export function parserError(cause: Error & { code?: string }): OjsError | undefined {
  switch (cause.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new OjsError('backend_error', 'The request did not arrive in time.', { status: 408 })
    case 'HPE_HEADER_OVERFLOW':
      return badRequest('The request headers are too large.', cause.code, { status: 431 })
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return badRequest('The chunk extensions are too large.', cause.code, { status: 413 })
    case 'HPE_INVALID_METHOD':
      return badRequest('The request method is not known.', cause.code)
    default:
      return cause.code?.startsWith('HPE_')
        ? badRequest('The request is not valid HTTP/1.1.', cause.code)
        : undefined
  }
}

function badRequest(message: string, reason: string, options: OjsErrorOptions = {}): OjsError {
  return new OjsError('invalid_request', message, { ...options, details: { reason } })
}

/**
 * Sends `error` on a connection that can carry no further request, and closes it. `latest` is the last
 * exchange on the connection. Its answer, if still owed, is sent first: the client takes the next answer for
 * the one to that request. `admit` is called when `error` answers a request of its own.
 */
export function refuse(
  socket: Duplex,
  error: OjsError,
  { latest, admit }: { latest: OjsResponse | undefined; admit: () => Admission },
): void {
  const end = () => endWith(socket, error, admit)
  if (latest === undefined) {
    end()
  } else if (!latest.req.complete && !latest.headersSent) {
    sendLastError(latest, error)
  } else {
    // A request that was answered before its body had arrived gets no second answer.
    const close = () => (latest.req.complete ? end() : socket.destroy())
    if (latest.writableFinished) close()
    else latest.once('finish', close)
  }
}

function endWith(socket: Duplex, error: OjsError, admit: () => Admission): void {
  if (!socket.writable) {
    socket.destroy()
    return
  }
  socket.on('error', () => socket.destroy())
  const admission = admit()
  socket.write(rawAnswer(admission.refusal ?? error, admission))
  closeLingering(socket)
}

/** With the two headers that Node adds to the answers that it writes. */
function rawAnswer(error: OjsError, admission: Admission): string {
  const requestId = mintRequestId()
  const text = errorBody(error, requestId)
  const extra = [
    'Date',
    new Date().toUTCString(),
    'Connection',
    'close',
    ...errorHeaders(error),
    ...(error.status === 405 ? ['Allow', EVERY_METHOD] : []),
  ]
  const bytes = Buffer.byteLength(text)
  const headers = answerHeaders({ requestId, admission }, extra, OJS_MEDIA_TYPE, bytes)
  const lines = [`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}`, ...headerLines(headers)]
  return `${lines.join('\r\n')}\r\n\r\n${text}`
}

/** From a flat list: name, value, name, value. */
function headerLines(list: readonly string[]): string[] {
  return list.flatMap((name, i) => (i % 2 === 0 ? `${name}: ${list[i + 1]}` : []))
}
