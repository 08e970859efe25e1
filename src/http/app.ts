/** The pipeline: every step that a request passes, from top to bottom, on a bare Express app. */
import { parse } from 'node:querystring'
import express, { type Express } from 'express'
import type { Logger } from '../logger.ts'
import type { AuditRecord } from '../operations/audit.ts'
import type { HttpObserver } from '../telemetry/exposition.ts'
import type { AccessConfig } from './access/access-config.ts'
import { auditRequests, keepRecords } from './access/audit-log.ts'
import { answerPreflight, refuseForeignOrigins, shareWith } from './access/cors.ts'
import { refuseForeignHosts } from './access/host-check.ts'
import {
  type Check,
  inTurn,
  negotiateVersion,
  noSuchRoute,
  readContext,
  refuseTooMany,
  requireHost,
  requireOneKey,
  requirePlainChunks,
  type Step,
} from './message/middleware.ts'
import { observeRequest } from './message/observe.ts'
import { errorRenderer } from './message/render-error.ts'
import { mount, type Route } from './route.ts'

export interface AppOptions {
  routes: readonly Route[]
  logger: Logger
  observer: HttpObserver
  access: Omit<AccessConfig, 'tls'>
  isTls: boolean
  /** Only this machine can reach the gateway. */
  isLoopback: boolean
  /** Keeps a record of who did what. */
  audit(record: AuditRecord): void
  now(): number
  /** What answers where no route does; default: 404. */
  otherwise?: Step | undefined
}

/**
 * What a request passes, from top to bottom. Three things happen elsewhere: `request.ts` gives the request
 * its id, `admission.ts` has already identified and counted the caller, and the routes that want a body read it
 * (`body.ts`). When a step or route throws, the error renderer at the end answers.
 */
export function createApp(options: AppOptions): Express {
  const { routes, logger, observer, access, now, audit: keep, otherwise = noSuchRoute } = options
  const { apiKeys, corsOrigins, rateLimit } = access
  const needsKeys = apiKeys.length > 0
  const app = bareApp()
  app.use(observeRequest(observer))
  if (needsKeys) app.use(auditRequests({ logger, now, routes, keep }))
  if (corsOrigins.length > 0) app.use(shareWith(corsOrigins))
  if (rateLimit !== undefined) app.use(inTurn([refuseTooMany]))
  if (corsOrigins.length > 0) app.use(answerPreflight(corsOrigins))
  const checks = [requireHost, requireOneKey, requirePlainChunks, ...foreignPages(options)]
  app.use(inTurn([...checks, negotiateVersion, readContext]))
  mount(app, routes, { needsKeys, audit: keepRecords({ now, keep }) })
  app.use(otherwise)
  app.use(errorRenderer(logger))
  return app
}

/**
 * Checks against web pages of other sites. With neither keys nor TLS, the names in `Host` and `Origin` prove
 * nothing: anybody can point a name at this machine (DNS rebinding).
 */
function foreignPages({ routes, access, isTls, isLoopback }: AppOptions): Check[] {
  const { apiKeys, corsOrigins } = access
  const trustsNames = apiKeys.length > 0 || isTls
  const origins = refuseForeignOrigins(corsOrigins, { trustsNames })
  // Not on loopback: by OJS_ALLOW_OPEN the operator has said that something else keeps strangers out.
  if (trustsNames || !isLoopback) return [origins]
  const isOpen = ({ access: who, path }: Route) => who === 'anybody' && !path.startsWith('/console')
  const open = routes.filter(isOpen).map(({ path }) => path)
  return [origins, refuseForeignHosts(corsOrigins, new Set(open))]
}

/** Express with everything switched off that adds headers or guesses; every resource has exactly one URL. */
function bareApp(): Express {
  return (
    express()
      .disable('x-powered-by')
      .disable('etag')
      // By default `parse` ignores everything after the first thousand parameters.
      .set('query parser', (text: string) => parse(text, '&', '=', { maxKeys: 0 }))
      .enable('case sensitive routing')
      .enable('strict routing')
  )
}
