/** Request and response classes that Express need not change: a new prototype deoptimises the object. */
import { IncomingMessage, ServerResponse } from 'node:http'
import express, { type Application } from 'express'
import { MemoryShare } from '../../memory.ts'
import type { RequestContext } from '../../operations/deps.ts'
import { ADMITTED, type Admission } from './admission.ts'
import { headerOf, requestIdOf } from './request-context.ts'

declare global {
  namespace Express {
    interface Request {
      /** Echoed or minted when first read, so that a parser error has one too. */
      readonly requestId: string
      /** Set by the server before the pipeline begins (`http-server.ts`), and by a sign-in. */
      admission: Admission
      /** The heap that the request uses; given back when its route is done (`route.ts`). */
      readonly memory: MemoryShare
      /**
       * `Host` is a name that somebody could own: only routes that are open to all answer (`host-check.ts`).
       */
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

/** A response with `locals`, so that Express need not create them. */
export class OjsResponse extends ServerResponse<OjsRequest> {
  /** Express creates an object for each response that has none; no code here uses it. */
  locals = NO_LOCALS
}

// The chain is ours → Express's → Node's: requests and responses have what Express adds, and ours takes
// precedence.
Object.setPrototypeOf(OjsRequest.prototype, express.request)
Object.setPrototypeOf(OjsResponse.prototype, express.response)

/**
 * Returns the two classes for `http.createServer`, whose prototypes are `app.request` and `app.response` from
 * the start. Express calls `Object.setPrototypeOf` on every request and response. A call that changes the
 * prototype deoptimises the object, and a PUSH costs 103 µs of CPU instead of 31 µs (docs/architecture.md
 * §8). Delete when Express no longer changes the prototypes of requests: the only patch of Express.
 */
export function requestClasses(app: Application): {
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
