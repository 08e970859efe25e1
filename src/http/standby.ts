/** The HTTP door of a gateway that stands by: alive, not ready, has metrics, and says who serves. */
import type { Request } from 'express'
import { OjsError } from '../errors.ts'
import type { Logger } from '../logger.ts'
import { type StandbyFacts, standbyHealth, withoutReasons } from '../operations/health.ts'
import type { MetricsPage } from '../telemetry/exposition.ts'
import { PROBES } from './access/admission.ts'
import { requireAllQueues } from './access/queue-scope.ts'
import { isServed } from './access/roles.ts'
import { HttpServer, type HttpServerOptions } from './http-server.ts'
import { answer } from './message/respond.ts'
import type { Route } from './route.ts'
import { metricsRoutes } from './routes/operate/system.ts'

export interface StandbyServiceOptions
  extends Pick<HttpServerOptions, 'host' | 'port' | 'access' | 'tls'> {
  logger: Logger
  /** Milliseconds since 1970 that never go back. */
  now(): number
  facts(): StandbyFacts
  metrics: MetricsPage
}

/**
 * The probes of seed 001 §8 say `standby`. Metrics are answered as by the active gateway, so that monitoring can
 * tell a standby from one that is gone; everything else is answered with 503 and where to go.
 */
export function createStandbyService(options: StandbyServiceOptions): HttpServer {
  const { access, facts, metrics, now } = options
  const startedAt = now()
  const needsKeys = access.apiKeys.length > 0
  const health = (request: Request) => {
    const body = standbyHealth(facts(), Math.floor((now() - startedAt) / 1_000))
    return mayKnowWhy(request, needsKeys) ? body : withoutReasons(body)
  }
  return new HttpServer({
    ...options,
    observer: { requestDone: () => {} },
    audit: () => {},
    routes: [
      ...PROBES.liveness.map((path) => probe(path, 200, () => ({ status: 'ok' }))),
      ...PROBES.readiness.map((path) => probe(path, 503, () => ({ status: 'standby' }))),
      ...PROBES.health.map((path) => probe(path, 503, health)),
      ...metricsRoutes(metrics).map(forKeysOfAllQueues),
    ],
    otherwise: ({ admission: { key } }) => {
      throw refusal(facts().activeUrl, !needsKeys || key !== undefined)
    },
    onStopping: () => {},
  })
}

function mayKnowWhy({ admission: { key }, isOfForeignHost }: Request, needsKeys: boolean): boolean {
  return needsKeys ? key !== undefined && isServed(key, ['operator', 'reader']) : !isOfForeignHost
}

function probe(path: string, status: number, body: (request: Request) => object): Route {
  return {
    method: 'GET',
    path,
    access: 'anybody',
    handle(request, response) {
      answer(response, status, JSON.stringify(body(request)))
    },
  }
}

function forKeysOfAllQueues(route: Route): Route {
  return {
    ...route,
    handle(request, response) {
      requireAllQueues(request)
      return route.handle(request, response)
    },
  }
}

/** Strangers are not told an address of the inside. */
function refusal(activeUrl: string | null, isKnown: boolean): OjsError {
  const isShown = isKnown && activeUrl !== null
  return new OjsError(
    'backend_error',
    isShown
      ? `This gateway stands by; the active one is at ${activeUrl}.`
      : 'This gateway stands by; another one is active, or about to be.',
    { status: 503, details: { reason: 'standby', ...(isShown && { active_url: activeUrl }) } },
  )
}
