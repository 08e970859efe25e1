import { IncomingMessage, ServerResponse } from 'node:http'
import express, { type Application } from 'express'
import { MemoryShare } from '../memory.ts'
import type { RequestContext } from '../operations/deps.ts'
import { ADMITTED, type Admission } from './gate.ts'
import { headerOf, requestIdOf } from './request-context.ts'

declare global {
  namespace Express {
    interface Request {
      /** Echoed or minted at the first look, so that even a parser error has one. */
      readonly requestId: string
      /** Set by the server before the pipeline begins (`http-server.ts`). */
      readonly admission: Admission
      /** What it has of the heap; given back when its route is done (`route.ts`). */
      readonly memory: MemoryShare
      /** Asked for by a name that somebody could own; only what is open to all is answered (`hosts.ts`). */
      isOfForeignHost: boolean
      /** Set by the pipeline (`app.ts`) before any route runs. */
      context: RequestContext
    }
  }
}

const NO_CONTEXT: RequestContext = Object.freeze({ requestId: '' })

/** A request with its id and, once the pipeline has seen it, its context. */
export class OjsRequest extends IncomingMessage {
  context = NO_CONTEXT
  admission: Admission = ADMITTED
  isOfForeignHost = false
  readonly memory = new MemoryShare()
  #requestId: string | undefined

  get requestId(): string {
    this.#requestId ??= requestIdOf(headerOf(this.headers, 'x-request-id'))
    return this.#requestId
  }
}

const NO_LOCALS = Object.freeze({})

/** A response that Express need not give `locals`. */
export class OjsResponse extends ServerResponse<OjsRequest> {
  /** Express creates one for each response that has none; nothing here uses it. */
  locals = NO_LOCALS
}

// Ours → Express's → Node's: what Express adds to requests and responses is there, ours wins.
Object.setPrototypeOf(OjsRequest.prototype, express.request)
Object.setPrototypeOf(OjsResponse.prototype, express.response)

/**
 * The two classes for `http.createServer`, with prototypes that are `app.request` and
 * `app.response` from birth. Express calls `Object.setPrototypeOf` on every request and response;
 * where that changes something it deoptimises the object, and a PUSH costs 103 µs of CPU here
 * instead of 31 µs (architecture §7).
 */
export function exchangeClasses(app: Application): {
  IncomingMessage: typeof OjsRequest
  ServerResponse: typeof OjsResponse
} {
  class AppRequest extends OjsRequest {}
  class AppResponse extends OjsResponse {}
  Object.defineProperty(AppRequest.prototype, 'app', { value: app })
  Object.defineProperty(AppResponse.prototype, 'app', { value: app })
  Object.assign(app, { request: AppRequest.prototype, response: AppResponse.prototype })
  return { IncomingMessage: AppRequest, ServerResponse: AppResponse }
}
