import { parse } from 'node:querystring'
import express, { type Express } from 'express'
import type { Logger } from '../logger.ts'
import type { HttpObserver } from '../telemetry/exposition.ts'
import type { AccessConfig } from './access-config.ts'
import { auditRequests } from './audit.ts'
import { refuseForeignHosts } from './hosts.ts'
import { observeRequest } from './observe.ts'
import { answerPreflight, refuseForeignOrigins, shareWith } from './origins.ts'
import {
  type Check,
  inTurn,
  negotiateVersion,
  noSuchRoute,
  readContext,
  refuseTooMany,
  requireHost,
  requirePlainChunks,
} from './pipeline.ts'
import { errorRenderer } from './render-error.ts'
import { mount, type Route } from './route.ts'

export interface AppOptions {
  routes: readonly Route[]
  logger: Logger
  observer: HttpObserver
  access: Omit<AccessConfig, 'tls'>
  isTls: boolean
  /** Nothing but this machine reaches the gateway. */
  isLoopback: boolean
  now(): number
}

/**
 * The way of a request, from top to bottom. Its id needs no step (`exchange.ts`), whose it is and
 * how many there were is known already (`gate.ts`), and bodies are read by the routes that want one
 * (`body.ts`). A step or route that throws goes to the last line.
 */
export function createApp(options: AppOptions): Express {
  const { routes, logger, observer, access, now } = options
  const { apiKeys, corsOrigins, rateLimit } = access
  const needsKeys = apiKeys.length > 0
  const app = bareApp()
  app.use(observeRequest(observer))
  if (needsKeys) app.use(auditRequests(logger, now))
  if (corsOrigins.length > 0) app.use(shareWith(corsOrigins))
  if (rateLimit !== undefined) app.use(inTurn([refuseTooMany]))
  if (corsOrigins.length > 0) app.use(answerPreflight(corsOrigins))
  const checks = [requireHost, requirePlainChunks, ...foreignPages(options)]
  app.use(inTurn([...checks, negotiateVersion, readContext]))
  mount(app, routes, needsKeys)
  app.use(noSuchRoute)
  app.use(errorRenderer(logger))
  return app
}

/** Where there are neither keys nor TLS, a name proves nothing. */
function foreignPages({ routes, access, isTls, isLoopback }: AppOptions): Check[] {
  const { apiKeys, corsOrigins } = access
  const trustsNames = apiKeys.length > 0 || isTls
  const origins = refuseForeignOrigins(corsOrigins, { trustsNames })
  // Beyond loopback the operator has said that something else keeps strangers out.
  if (trustsNames || !isLoopback) return [origins]
  const open = routes.filter((route) => route.access === 'anybody').map(({ path }) => path)
  return [origins, refuseForeignHosts(corsOrigins, new Set(open))]
}

/** Express with nothing that adds headers or guesses: one resource, one URL. */
function bareApp(): Express {
  return (
    express()
      .disable('x-powered-by')
      .disable('etag')
      // Without `maxKeys` what is behind the first thousand parameters would not be seen.
      .set('query parser', (text: string) => parse(text, '&', '=', { maxKeys: 0 }))
      .enable('case sensitive routing')
      .enable('strict routing')
  )
}
