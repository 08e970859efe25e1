import { timestamp } from '../../job/document.ts'
import { type Heartbeat, heartbeat } from '../../operations/heartbeat.ts'
import { answer } from '../answer.ts'
import { readJson } from '../body.ts'
import type { Route } from '../route.ts'
import type { Door } from './door.ts'

/** How often a worker should beat: a sixth of the silence after which it is stale. */
const INTERVAL_MS = 5_000

/** BEAT (seed 001 §10.4). */
export function heartbeatRoutes({ deps, maxBodyBytes }: Door): Route[] {
  return [
    {
      method: 'POST',
      path: '/ojs/v1/workers/heartbeat',
      access: ['worker'],
      async handle(request, response) {
        const body = await readJson(request, response, maxBodyBytes)
        answer(response, 200, JSON.stringify(heartbeatDocument(await heartbeat(deps, body))))
      },
    },
  ]
}

/** `directive`, `cancelled_jobs` and the interval are additions (ojs-digest §9, C-15). */
function heartbeatDocument({ directive, extended, cancelled, serverTime }: Heartbeat): object {
  return {
    state: directive,
    directive,
    jobs_extended: extended,
    cancelled_jobs: cancelled,
    server_time: timestamp(serverTime),
    heartbeat_interval_ms: INTERVAL_MS,
  }
}
