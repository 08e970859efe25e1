import type { Deps } from '../operations/deps.ts'
import { health } from '../operations/health.ts'
import { type ManifestFacts, manifest } from '../operations/manifest.ts'
import type { Exposition } from '../telemetry/exposition.ts'
import { type ConnectionLimits, HttpServer } from './http-server.ts'
import { Polls } from './polls.ts'
import { adminRoutes } from './routes/admin.ts'
import { adminWorkerRoutes } from './routes/admin-workers.ts'
import { deadLetterRoutes } from './routes/dead-letters.ts'
import type { Door } from './routes/door.ts'
import { eventRoutes } from './routes/events.ts'
import { heartbeatRoutes } from './routes/heartbeat.ts'
import { jobRoutes } from './routes/jobs.ts'
import { notYetRoutes } from './routes/not-yet.ts'
import { queueRoutes } from './routes/queues.ts'
import { schemaRoutes } from './routes/schemas.ts'
import { systemRoutes } from './routes/system.ts'
import { workerRoutes } from './routes/workers.ts'

export interface HttpServiceOptions extends Omit<ManifestFacts, 'baseUrl'> {
  host: string
  /** 0 = any free one; `url()` tells which. */
  port: number
  metrics: Exposition
  events: Door['events']
  maxBatchBytes: number
  limits?: Partial<ConnectionLimits>
}

/** The HTTP door with all that is behind it (seed 001, Appendix A). */
export function createHttpService(deps: Deps, options: HttpServiceOptions): HttpServer {
  const startedAt = deps.clock.now()
  const polls = new Polls()
  const door: Door = {
    deps,
    polls,
    maxBodyBytes: options.maxBodyBytes,
    maxBatchBytes: options.maxBatchBytes,
    metrics: options.metrics,
    events: options.events,
    health: () => health(deps, startedAt),
    manifest: () => manifest({ ...options, baseUrl: server.url() }),
  }
  const server = new HttpServer({
    ...options,
    logger: deps.logger,
    observer: options.metrics.http,
    routes: [
      ...jobRoutes(door),
      ...workerRoutes(door),
      ...heartbeatRoutes(door),
      ...deadLetterRoutes(door),
      ...queueRoutes(door),
      ...schemaRoutes(door),
      ...eventRoutes(door),
      ...systemRoutes(door),
      ...adminRoutes(door),
      ...adminWorkerRoutes(door),
      ...notYetRoutes(),
    ],
    onStopping: () => polls.endAll(),
  })
  return server
}
