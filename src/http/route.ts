/** What a route is, and how a list of routes becomes Express routes, with 405 for other methods. */
import type { Express, Request, Response } from 'express'
import { echoed, invalidField } from '../errors.ts'
import { isAudited } from './access/audit-log.ts'
import type { Scoping } from './access/queue-scope.ts'
import { type Access, requireRole } from './access/roles.ts'
import { otherMethod, type Step } from './message/middleware.ts'
import { withoutNul } from './message/query.ts'
import type { Description } from './openapi/description.ts'

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
type Handler = (request: Request, response: Response) => void | Promise<void>

/** Express's names of the methods. */
const EXPRESS = {
  GET: 'get',
  POST: 'post',
  PUT: 'put',
  PATCH: 'patch',
  DELETE: 'delete',
} as const

/** One endpoint. `path` is the whole path template, which also labels its metrics. */
export interface Route {
  method: Method
  path: string
  /** Who may call it when keys are configured; default: `admin` only. */
  access?: Access
  /** What it does with a key of some queues; default: refuses it. Open routes do not ask. */
  scoping?: Scoping
  /** True: it changes nothing, though its method is not GET, because what it is asked needs a body. */
  onlyReads?: boolean
  handle: Handler
}

/** A route of the API, which the OpenAPI document shows. */
export interface Endpoint extends Route {
  about: Description
}

interface Mounting {
  /** Each route checks the role of the key before anything else. */
  needsKeys: boolean
  /** Without keys, comes before the routes that steer something; with keys, another step sees all requests. */
  audit: Step
}

/**
 * Adds the routes to the app: one Express route per path, which also answers the methods that the path does
 * not support. Paths without parameters come first, so that `/jobs/:id` never takes `/jobs/batch` for an id;
 * otherwise the order of the list is kept, in which the router tries them.
 */
export function mount(app: Express, routes: readonly Route[], given: Mounting): void {
  const paths = [...byPath(routes)]
  const isLiteral = ([path]: [string, Route[]]) => !path.includes(':')
  for (const [path, endpoints] of [
    ...paths.filter(isLiteral),
    ...paths.filter((entry) => !isLiteral(entry)),
  ]) {
    const route = app.route(path)
    for (const endpoint of endpoints) route[EXPRESS[endpoint.method]](stepsOf(endpoint, given))
    route.all(otherMethod(allowed(endpoints)))
  }
}

function stepsOf(endpoint: Route, { needsKeys, audit }: Mounting) {
  const { access = [], handle } = endpoint
  const own = freeing(handle)
  if (needsKeys) return access === 'anybody' ? [own] : [requireRole(access), own]
  return isAudited(endpoint) ? [audit, own] : [own]
}

function freeing(handle: Handler): Handler {
  return async (request, response) => {
    try {
      await handle(request, response)
    } finally {
      request.memory.giveBack()
    }
  }
}

function byPath(routes: readonly Route[]): Map<string, Route[]> {
  const paths = new Map<string, Route[]>()
  for (const route of routes) {
    const endpoints = paths.get(route.path) ?? []
    if (endpoints.some(({ method }) => method === route.method)) {
      throw new Error(`two routes for ${route.method} ${route.path}`)
    }
    paths.set(route.path, [...endpoints, route])
  }
  return paths
}

/** The `Allow` header of a path; GET implies HEAD (RFC 9110 §9.3.2). */
function allowed(endpoints: readonly Route[]): string {
  const methods = endpoints.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  return [...methods, 'OPTIONS'].join(', ')
}

/** Returns a decoded path parameter. Its pattern is not checked: an unknown id is a 404, not a 400. */
export function pathParameter(request: Request, name: string): string {
  const value = request.params[name]
  return typeof value === 'string' ? withoutNul(value) : ''
}

/**
 * Adds the job of the path to a body, as `job_id`, which the operations of workers expect there. Throws 400 if
 * the body names another.
 */
export function ofPath(request: Request, body: Record<string, unknown>): Record<string, unknown> {
  const id = pathParameter(request, 'id')
  if (body['job_id'] != null && body['job_id'] !== id) {
    throw invalidField('job_id', "The 'job_id' field must be the id in the path.", {
      expected: echoed(id),
    })
  }
  return { ...body, job_id: id }
}
