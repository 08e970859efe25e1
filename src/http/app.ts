import express, { type Express } from 'express'
import type { Logger } from '../logger.ts'
import type { HttpObserver } from '../telemetry/exposition.ts'
import { observeRequest } from './observe.ts'
import { negotiateVersion, noSuchRoute, readContext, requireHost } from './pipeline.ts'
import { errorRenderer } from './render-error.ts'
import { mount, type Route } from './route.ts'

export interface AppOptions {
  routes: readonly Route[]
  logger: Logger
  observer: HttpObserver
}

/**
 * The way of a request, from top to bottom. Its id needs no step (`exchange.ts`), and bodies are
 * read by the routes that want one (`body.ts`). A step or route that throws goes to the last line.
 */
export function createApp({ routes, logger, observer }: AppOptions): Express {
  const app = bareApp()
  app.use(observeRequest(observer))
  app.use(requireHost)
  app.use(negotiateVersion)
  app.use(readContext)
  mount(app, routes)
  app.use(noSuchRoute)
  app.use(errorRenderer(logger))
  return app
}

/** Express with nothing that adds headers or guesses: one resource, one URL. */
function bareApp(): Express {
  return express()
    .disable('x-powered-by')
    .disable('etag')
    .set('query parser', 'simple')
    .enable('case sensitive routing')
    .enable('strict routing')
}
