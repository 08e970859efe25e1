import type { Express, Request, Response } from 'express'
import { otherMethod } from './pipeline.ts'

export type Method = 'GET' | 'POST' | 'DELETE'
type Handler = (request: Request, response: Response) => void | Promise<void>

/** One endpoint. `path` is the whole template, and the label of its metrics. */
export interface Route {
  method: Method
  path: string
  handle: Handler
}

/**
 * Puts the routes on the app: one Express route per path, with an answer for the methods that the
 * path does not have. Paths without parameters come first, so that `/jobs/:id` never takes
 * `/jobs/batch` for an id; else the order is that of the list, and the router tries one by one.
 */
export function mount(app: Express, routes: readonly Route[]): void {
  const paths = [...byPath(routes)]
  const isLiteral = ([path]: [string, Route[]]) => !path.includes(':')
  for (const [path, endpoints] of [
    ...paths.filter(isLiteral),
    ...paths.filter((entry) => !isLiteral(entry)),
  ]) {
    const route = app.route(path)
    for (const { method, handle } of endpoints) {
      if (method === 'GET') route.get(handle)
      else if (method === 'POST') route.post(handle)
      else route.delete(handle)
    }
    route.all(otherMethod(allowed(endpoints)))
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
  return typeof value === 'string' ? value : ''
}
