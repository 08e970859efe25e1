/** The steps that every request takes around its route: RFC checks, version, context, 404 and 405. */
import type { NextFunction, Request, Response } from 'express'
import { echoed, invalidField, OjsError } from '../../errors.ts'
import { sendError } from './render-error.ts'
import { headerOf, requestContext } from './request-context.ts'
import { answerEmpty } from './respond.ts'

/** The steps that every request takes before and after its route; `app.ts` puts them in order. */
export type Step = (request: Request, response: Response, next: NextFunction) => void

/** A step that only checks the request: it throws, or the next step runs. */
export type Check = (request: Request) => void

/** Runs several checks as one step: each layer of Express costs about a microsecond per request. */
export function inTurn(checks: readonly Check[]): Step {
  return (request, _response, next) => {
    for (const check of checks) check(request)
    next()
  }
}

/** Seed 001 §18.2. The gate has counted the request (`admission.ts`). */
export const refuseTooMany: Check = ({ admission }) => {
  if (admission.refusal !== undefined) throw admission.refusal
}

/**
 * RFC 9112 §3.2. Node could refuse a missing `Host` itself, but with an answer that is not OJS. Of two `Host`
 * headers Node takes the first, while a proxy in front may take the other.
 */
export const requireHost: Check = ({ headers, rawHeaders, httpVersion }) => {
  if (headers.host === undefined && httpVersion === '1.1') {
    throw invalidField('Host', 'An HTTP/1.1 request needs a Host header.')
  }
  if (namedTwice('host', rawHeaders)) {
    throw invalidField('Host', 'The request has several Host headers; it must have one.')
  }
}

/** RFC 9110 §11.6.2. As of two `Host` headers: a proxy may have checked the key that does not count here. */
export const requireOneKey: Check = ({ headers, rawHeaders }) => {
  if (headers.authorization === undefined || !namedTwice('authorization', rawHeaders)) return
  throw invalidField('Authorization', 'The request has several Authorization headers.')
}

/**
 * RFC 9112 §6.1. Of all transfer codings Node decodes only `chunked`. It would take content in another coding
 * as it is, while a proxy in front may decode it. HTTP/1.0 has no transfer codings at all: there, whatever
 * follows the chunks must not be read as a request (`render-error.ts` closes the connection).
 */
export const requirePlainChunks: Check = ({ headers, httpVersion }) => {
  const coding = headers['transfer-encoding']
  if (coding === undefined) return
  if (httpVersion === '1.0') {
    throw invalidField(
      'Transfer-Encoding',
      'An HTTP/1.0 request must not have a Transfer-Encoding header.',
    )
  }
  if (coding.toLowerCase() === 'chunked') return
  throw new OjsError('unsupported', 'The only supported transfer coding is chunked.', {
    status: 501,
    details: { field: 'Transfer-Encoding', expected: 'chunked', received: echoed(coding) },
  })
}

/** `rawHeaders` alternates names and values. */
function namedTwice(name: string, rawHeaders: readonly string[]): boolean {
  let count = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const each = rawHeaders[i]
    if (each?.length === name.length && each.toLowerCase() === name) count++
  }
  return count > 1
}

/** The methods that change nothing. */
export const READING: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

const SPOKEN_VERSIONS: ReadonlySet<string> = new Set(['1.0', '1', '1.0.0', '1.0.0-rc.1'])

/** Seed 001 §3.2: an unsupported version is answered with 422 `unsupported`. */
export const negotiateVersion: Check = (request) => {
  const wanted = headerOf(request.headers, 'ojs-version')
  if (wanted !== undefined && !SPOKEN_VERSIONS.has(wanted)) {
    throw new OjsError('unsupported', 'This server supports OJS 1.0 only.', {
      details: { field: 'OJS-Version', requested: echoed(wanted), supported: ['1.0'] },
    })
  }
}

export const readContext: Check = (request) => {
  const { requestId, headers, admission } = request
  request.context = requestContext(requestId, headers, admission.key?.name)
  if (admission.key?.queues !== undefined) request.context.queues = admission.key.queues
  if (admission.toll !== undefined) request.context.toll = admission.toll
}

/** Answers a method that an existing path does not support. `allow` is the path's `Allow` header. */
export function otherMethod(allow: string): Step {
  return (request, response) => {
    if (request.method === 'OPTIONS') return answerEmpty(response, 'Allow', allow)
    const error = new OjsError(
      'invalid_request',
      `The path does not support the method ${request.method}.`,
      {
        status: 405,
        details: { method: request.method, allow: allow.split(', ') },
      },
    )
    sendError(response, error, 'Allow', allow)
  }
}

/** The `Allow` header of requests that name no path. */
export const EVERY_METHOD = 'GET, HEAD, POST, PUT, DELETE, OPTIONS'

export const noSuchRoute: Step = (request, response) => {
  if (request.method === 'OPTIONS' && request.url === '*') {
    return answerEmpty(response, 'Allow', EVERY_METHOD)
  }
  throw new OjsError('not_found', `No such endpoint: ${request.method} ${request.path}`, {
    details: { resource_type: 'route', resource_id: request.path },
  })
}
