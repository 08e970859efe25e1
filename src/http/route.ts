import type { Express, Request, Response } from 'express'
import { type Access, requireRole } from './access.ts'
import { otherMethod } from './pipeline.ts'
import { withoutNul } from './query.ts'

type Method = 'GET' | 'POST' | 'DELETE'
type Handler = (request: Request, response: Response) => void | Promise<void>

/** One endpoint. `path` is the whole template, and the label of its metrics. */
export interface Route {
  method: Method
  path: string
  /** Whom it serves where keys are configured. Not said: `admin` alone. */
  access?: Access
  handle: Handler
}

/**
 * Puts the routes on the app: one Express route per path, with an answer for the methods that the
 * path does not have. Paths without parameters come first, so that `/jobs/:id` never takes
 * `/jobs/batch` for an id; else the order is that of the list, and the router tries one by one.
 * `needsKeys`: each route asks for the key of one of its roles before it looks at anything else.
 */
export function mount(app: Express, routes: readonly Route[], needsKeys: boolean): void {
  const paths = [...byPath(routes)]
  const isLiteral = ([path]: [string, Route[]]) => !path.includes(':')
  for (const [path, endpoints] of [
    ...paths.filter(isLiteral),
    ...paths.filter((entry) => !isLiteral(entry)),
  ]) {
    const route = app.route(path)
    for (const { method, access = [], handle } of endpoints) {
      const own = freeing(handle)
      const steps = needsKeys && access !== 'anybody' ? [requireRole(access), own] : [own]
      if (method === 'GET') route.get(steps)
      else if (method === 'POST') route.post(steps)
      else route.delete(steps)
    }
    route.all(otherMethod(allowed(endpoints)))
  }
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

/** The `Allow` header of a path; where there is GET there is HEAD (RFC 9110 §9.3.2). */
function allowed(endpoints: readonly Route[]): string {
  const methods = endpoints.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  return [...methods, 'OPTIONS'].join(', ')
}

/** A parameter of the path, decoded. Not pattern-checked: an unknown id is a 404, not a 400. */
export function pathParameter(request: Request, name: string): string {
  const value = request.params[name]
  return typeof value === 'string' ? withoutNul(value) : ''
}
