/** BEAT: a worker is alive and extends its leases; the answer carries directives and cancelled jobs. */
import { timestamp } from '../../job/document.ts'
import { type Heartbeat, heartbeat } from '../../operations/lease/heartbeat.ts'
import { readJson } from '../message/body.ts'
import { answer } from '../message/respond.ts'
import type { Route } from '../route.ts'
import type { Door } from './route-deps.ts'

/** The longest interval between beats: a sixth of the silence after which a worker is stale. */
const INTERVAL_MS = 5_000
/** The shortest interval. A lease shorter than three of these cannot be kept alive over HTTP. */
const MIN_INTERVAL_MS = 50

/** BEAT (seed 001 §10.4). */
export function heartbeatRoutes({ deps, polls }: Door): Route[] {
  return [
    {
      method: 'POST',
      path: '/ojs/v1/workers/heartbeat',
      access: ['worker'],
      async handle(request, response) {
        const body = await readJson(request, response, deps.settings.maxBodyBytes)
        const intervalMs = intervalOf(deps.settings.visibilityTimeoutMs)
        const beat = await heartbeat(deps, body, request.context)
        const { worker_id: workerId, state } = body
        if (state === 'quiet' || state === 'terminate') polls.endOf((id) => id === workerId)
        answer(response, 200, JSON.stringify(document(beat, intervalMs)))
      },
    },
  ]
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
