/** BEAT: a worker is alive and extends its leases; the answer carries directives and cancelled jobs. And its health. */
import type { Request } from 'express'
import { timestamp } from '../../job/document.ts'
import { type Heartbeat, heartbeat } from '../../operations/lease/heartbeat.ts'
import type { ListedWorker } from '../../operations/workers/worker-registry.ts'
import { workerHealth } from '../../operations/workers/workers.ts'
import { readJson } from '../message/body.ts'
import { answer } from '../message/respond.ts'
import { BEAT, HEARTBEAT, WORKER_HEALTH } from '../openapi/workers.ts'
import { type Endpoint, pathParameter } from '../route.ts'
import type { Door } from './route-deps.ts'

/** The longest interval between beats: a sixth of the silence after which a worker is stale. */
const INTERVAL_MS = 5_000
/** The shortest interval. A lease shorter than three of these cannot be kept alive over HTTP. */
const MIN_INTERVAL_MS = 50

/** BEAT (seed 001 §10.4); also under its short name, with that name's words (OJS graceful shutdown). */
export function heartbeatRoutes(door: Door): Endpoint[] {
  return [
    {
      method: 'POST',
      path: '/ojs/v1/workers/heartbeat',
      about: HEARTBEAT,
      access: ['worker'],
      scoping: 'own',
      async handle(request, response) {
        const body = await readJson(request, response, door.deps.settings.maxBodyBytes)
        answer(response, 200, JSON.stringify(await beaten(door, body, request)))
      },
    },
    {
      method: 'POST',
      path: '/ojs/v1/workers/beat',
      about: BEAT,
      access: ['worker'],
      scoping: 'own',
      async handle(request, response) {
        const body = inOurWords(await readJson(request, response, door.deps.settings.maxBodyBytes))
        const told = await beaten(door, body, request)
        answer(response, 200, JSON.stringify({ acknowledged: true, ...told }))
      },
    },
    {
      method: 'GET',
      path: '/ojs/v1/workers/:id/health',
      about: WORKER_HEALTH,
      access: ['worker', 'operator', 'reader'],
      scoping: 'own',
      async handle(request, response) {
        const worker = await workerHealth(door.deps, pathParameter(request, 'id'), request.context)
        const status = worker.state === 'stale' ? 503 : 200
        answer(response, status, JSON.stringify(healthDocument(worker)))
      },
    },
  ]
}

/** The words of OJS graceful shutdown for our states. */
const HEALTH_STATES = {
  running: 'running',
  quiet: 'draining',
  terminate: 'shutting_down',
  stale: 'stale',
} as const

function healthDocument({ id, state, activeJobs, ...worker }: ListedWorker): object {
  return {
    worker_id: id,
    state: HEALTH_STATES[state],
    active_jobs: activeJobs,
    last_heartbeat_at: timestamp(worker.lastHeartbeatAt ?? worker.lastSeenAt),
  }
}

async function beaten(
  { deps, polls }: Door,
  body: Record<string, unknown>,
  { context }: Request,
): Promise<object> {
  const intervalMs = intervalOf(deps.settings.visibilityTimeoutMs)
  const beat = await heartbeat(deps, body, context)
  const { worker_id: workerId, state } = body
  if (state === 'quiet' || state === 'terminate') polls.endOf((id) => id === workerId)
  return document(beat, intervalMs)
}

/** Of the short name: `shutdown: true` means that the worker is about to end, `drain` that it takes no more. */
function inOurWords(body: Record<string, unknown>): Record<string, unknown> {
  if (body['shutdown'] === true) return { ...body, state: 'terminate' }
  const isDraining = body['state'] === 'drain' || body['state'] === 'draining'
  return isDraining ? { ...body, state: 'quiet' } : body
}

/**
 * A third of the default lease, so that two of three beats may be lost. A job that names no lease gets the
 * default one, whose length its worker is not told.
 */
function intervalOf(visibilityTimeoutMs: number): number {
  return Math.max(MIN_INTERVAL_MS, Math.min(INTERVAL_MS, Math.floor(visibilityTimeoutMs / 3)))
}

/** The answer; `directive`, `cancelled_jobs` and the interval are additions (OJS workers, ojs-choices C-15). */
function document(
  { directive, extended, cancelled, serverTime }: Heartbeat,
  intervalMs: number,
): object {
  return {
    state: directive,
    directive,
    jobs_extended: extended,
    cancelled_jobs: cancelled,
    server_time: timestamp(serverTime),
    heartbeat_interval_ms: intervalMs,
  }
}
