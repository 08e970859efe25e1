/** Composes the HTTP door: all routes, the manifest's facts about access, and the server. */
import { hash } from 'node:crypto'
import { auditTrail } from '../operations/audit.ts'
import type { Deps } from '../operations/deps.ts'
import { health } from '../operations/health.ts'
import { disasterRecovery, type ManifestFacts, manifest } from '../operations/manifest.ts'
import { liveStats } from '../operations/queues/live-stats.ts'
import type { EventRing } from '../telemetry/event-ring.ts'
import { OidcSignIn } from './access/oidc/sign-in.ts'
import { requireScope } from './access/queue-scope.ts'
import { Sessions } from './access/sessions.ts'
import { EventStreams, type FollowedRing } from './connection/event-streams.ts'
import { LongPolls } from './connection/long-polls.ts'
import { consolePages } from './console/pages.ts'
import { HttpServer, type HttpServerOptions } from './http-server.ts'
import { openApiDocument } from './openapi/document.ts'
import type { Endpoint } from './route.ts'
import { adminQueueRoutes } from './routes/admin-queues.ts'
import { adminStatsRoutes } from './routes/admin-stats.ts'
import { adminWorkerRoutes } from './routes/admin-workers.ts'
import { cronRoutes } from './routes/cron.ts'
import { eventStreamRoutes } from './routes/event-streams.ts'
import { eventRoutes } from './routes/events.ts'
import { heartbeatRoutes } from './routes/heartbeat.ts'
import { historyRoutes } from './routes/history.ts'
import { jobSearchRoutes } from './routes/job-search.ts'
import { jobRoutes } from './routes/jobs.ts'
import { auditRoutes } from './routes/operate/audit.ts'
import { ledgerRoutes } from './routes/operate/ledger.ts'
import { maintenanceRoutes } from './routes/operate/maintenance.ts'
import { rabbitmqRoutes } from './routes/operate/rabbitmq.ts'
import { recoverRoutes } from './routes/operate/recover.ts'
import { retentionRoutes } from './routes/operate/retention.ts'
import { systemRoutes } from './routes/operate/system.ts'
import { progressRoutes } from './routes/progress.ts'
import { queueRoutes } from './routes/queues.ts'
import { rateLimitRoutes } from './routes/rate-limits.ts'
import { resultRoutes } from './routes/results.ts'
import type { Door, SignIn } from './routes/route-deps.ts'
import { schemaRoutes } from './routes/schemas.ts'
import { sessionRoutes } from './routes/session.ts'
import { adminJobRoutes } from './routes/steer/admin-jobs.ts'
import { bulkRoutes } from './routes/steer/bulk.ts'
import { deadLetterRoutes } from './routes/steer/dead-letters.ts'
import { failureRoutes } from './routes/steer/failures.ts'
import { queueSteeringRoutes } from './routes/steer/queues.ts'
import { workerRoutes } from './routes/workers.ts'
import { workflowRoutes } from './routes/workflows.ts'

export type HttpServiceOptions = Pick<HttpServerOptions, 'host' | 'port' | 'access' | 'tls'> &
  Pick<Door, 'metrics' | 'shownConfig' | 'ledgerAtStart'> & {
    events: Pick<EventRing, 'list'> & FollowedRing
    /** Whether the console is served. */
    hasConsole: boolean
    consoleLinks: SignIn['links']
  } & Omit<ManifestFacts, 'baseUrl' | 'access' | 'maxBodyBytes' | 'disasterRecovery'>

/** Creates the HTTP door with all its routes (seed 001, Appendix A). */
export function createHttpService(deps: Deps, options: HttpServiceOptions): HttpServer {
  const startedAt = deps.clock.now()
  const polls = new LongPolls()
  const access = accessFacts(options)
  const { maxBodyBytes } = deps.settings
  const streams = new EventStreams(options.events, liveStats(deps))
  const door: Door = {
    deps,
    polls,
    shownConfig: options.shownConfig,
    ledgerAtStart: options.ledgerAtStart,
    metrics: options.metrics,
    events: options.events,
    streams,
    needsKeys: access.needsKeys,
    health: () => health(deps, startedAt, server.isStopping),
    isDraining: () => server.isStopping,
    manifest: (reachedAs) =>
      manifest({
        ...{ ...options, access, maxBodyBytes, baseUrl: server.url(reachedAs) },
        disasterRecovery: () => disasterRecovery(deps.ledger.known.replication),
      }),
    openApi: () => openApi(),
    signIn: signInOf(deps, options, () => routes),
  }
  const routes = routesOf(door)
  const openApi = onceAsked(() => openApiDocument(routes, { ...access, ...options }))
  const server = new HttpServer({
    ...options,
    logger: deps.logger,
    now: () => deps.clock.now(),
    observer: options.metrics.http,
    audit: auditTrail(deps),
    sessions: door.signIn.sessions,
    routes: options.hasConsole
      ? [...routes, ...consolePages(options.consoleLinks.codecUrl)]
      : routes,
    onStopping: () => {
      polls.endAll()
      streams.endAll()
    },
  })
  return server
}

function signInOf(
  deps: Deps,
  { access, tls, version, consoleLinks: links }: HttpServiceOptions,
  endpoints: SignIn['endpoints'],
): SignIn {
  const now = () => deps.clock.now()
  const sessions = new Sessions(now)
  const oidc = access.oidc && new OidcSignIn(access.oidc, deps.logger, now)
  const isTls = tls !== undefined
  return { keys: access.apiKeys, sessions, oidc, isTls, version, links, endpoints }
}

/** All endpoints; `test/http/access/roles.test.ts` lists the roles of each. */
export function routesOf(door: Door): Endpoint[] {
  return allRoutes(door).map((route) => keepingToQueues(door, route))
}

/** Every route looks at the queues of the caller's key first, if the key is for some only. */
function keepingToQueues(door: Door, route: Endpoint): Endpoint {
  const { access, scoping, handle } = route
  if (access === 'anybody') return route
  return {
    ...route,
    handle(request, response) {
      if (request.context.queues === undefined) return handle(request, response)
      return requireScope(door.deps, scoping, request).then(() => handle(request, response))
    },
  }
}

function allRoutes(door: Door): Endpoint[] {
  return [
    ...jobRoutes(door),
    ...jobSearchRoutes(door),
    ...workerRoutes(door),
    ...heartbeatRoutes(door),
    ...progressRoutes(door),
    ...resultRoutes(door),
    ...deadLetterRoutes(door),
    ...failureRoutes(door),
    ...cronRoutes(door),
    ...queueRoutes(door),
    ...rateLimitRoutes(door),
    ...schemaRoutes(door),
    ...workflowRoutes(door),
    ...historyRoutes(door),
    ...eventRoutes(door),
    ...eventStreamRoutes(door),
    ...systemRoutes(door),
    ...sessionRoutes(door),
    ...maintenanceRoutes(door),
    ...recoverRoutes(door),
    ...retentionRoutes(door),
    ...adminQueueRoutes(door),
    ...queueSteeringRoutes(door),
    ...adminJobRoutes(door),
    ...bulkRoutes(door),
    ...adminWorkerRoutes(door),
    ...adminStatsRoutes(door),
    ...auditRoutes(door),
    ...rabbitmqRoutes(door),
    ...ledgerRoutes(door),
  ]
}

/** Made at the first request, because most processes are never asked. */
function onceAsked(make: () => object): Door['openApi'] {
  let made: ReturnType<Door['openApi']> | undefined
  return () => {
    if (made === undefined) {
      const text = JSON.stringify(make())
      made = { text, tag: `"${hash('sha256', text, 'base64url')}"` }
    }
    return made
  }
}

function accessFacts({ access, tls }: HttpServiceOptions): ManifestFacts['access'] {
  return {
    needsKeys: access.apiKeys.length > 0,
    needsClientCertificate: tls?.ca !== undefined,
    rateLimit: access.rateLimit,
  }
}
