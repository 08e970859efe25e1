import type { NextFunction, Request, Response } from 'express'
import { invalidField, OjsError } from '../errors.ts'
import { answerEmpty } from './answer.ts'
import { sendError } from './render-error.ts'
import { headerOf, requestContext } from './request-context.ts'

/** The steps that every request takes before and after its route; `app.ts` puts them in order. */
export type Step = (request: Request, response: Response, next: NextFunction) => void

/** Seed 001 §18.2. The count is the gate's (`gate.ts`). */
export const refuseTooMany: Step = ({ admission }, _response, next) => {
  if (admission.refusal !== undefined) throw admission.refusal
  next()
}

/** RFC 9112 §3.2. Node would do this check itself, with an answer that is not OJS. */
export const requireHost: Step = (request, _response, next) => {
  if (request.headers.host === undefined && request.httpVersion === '1.1') {
    throw invalidField('Host', 'An HTTP/1.1 request needs a Host header.')
  }
  next()
}

const SPOKEN_VERSIONS: ReadonlySet<string> = new Set(['1.0', '1', '1.0.0', '1.0.0-rc.1'])

/** Seed 001 §3.2: a version that is not spoken here is 422 `unsupported`. */
export const negotiateVersion: Step = (request, _response, next) => {
  const wanted = headerOf(request.headers, 'ojs-version')?.trim()
  if (wanted !== undefined && !SPOKEN_VERSIONS.has(wanted)) {
    throw new OjsError('unsupported', 'This server speaks OJS 1.0.', {
      details: { field: 'OJS-Version', requested: wanted.slice(0, 100), supported: ['1.0'] },
    })
  }
  next()
}

export const readContext: Step = (request, _response, next) => {
  request.context = requestContext(request.requestId, request.headers)
  next()
}

/** For a path that exists and a method that it does not have. `allow` is its `Allow` header. */
export function otherMethod(allow: string): Step {
  return (request, response) => {
    if (request.method === 'OPTIONS') return answerEmpty(response, 'Allow', allow)
    const error = new OjsError('invalid_request', `${request.method} is not allowed here.`, {
      status: 405,
      details: { method: request.method, allow: allow.split(', ') },
    })
    sendError(response, error, 'Allow', allow)
  }
}

const EVERY_METHOD = 'GET, HEAD, POST, DELETE, OPTIONS'

export const noSuchRoute: Step = (request, response) => {
  if (request.method === 'OPTIONS' && request.url === '*') {
    return answerEmpty(response, 'Allow', EVERY_METHOD)
  }
  throw new OjsError('not_found', `No such endpoint: ${request.method} ${request.path}`, {
    details: { resource_type: 'route', resource_id: request.path },
  })
}
