import { queueMember } from '../../dialect.ts'
import { timestamp } from '../../job/document.ts'
import { pauseQueue, resumeQueue } from '../../operations/pause.ts'
import { listQueues, type QueueStats, queueStats } from '../../operations/queues.ts'
import { answer } from '../answer.ts'
import { readOptionalJson } from '../body.ts'
import { pageOf, pagination } from '../query.ts'
import { pathParameter, type Route } from '../route.ts'
import type { Door } from './door.ts'

const QUEUES = '/ojs/v1/queues'
const SECONDS_PER_HOUR = 3_600

/** List, statistics, pause and resume of queues (seed 001 §11). */
export function queueRoutes({ deps, maxBodyBytes }: Door): Route[] {
  const member = (name: string, facts: Record<string, number | boolean>) =>
    queueMember(deps.settings.dialect, name, facts)
  return [
    {
      method: 'GET',
      path: QUEUES,
      access: ['operator'],
      handle(request, response) {
        const page = pageOf(request)
        const { queues, total } = listQueues(deps, page)
        const items = queues.map(({ name, status, createdAt }) => ({
          name,
          status,
          created_at: timestamp(createdAt),
        }))
        answer(
          response,
          200,
          JSON.stringify({ queues: items, pagination: pagination(page, total) }),
        )
      },
    },
    {
      method: 'GET',
      path: `${QUEUES}/:name/stats`,
      access: ['operator'],
      handle(request, response) {
        const name = pathParameter(request, 'name')
        const found = queueStats(deps, name)
        const stats = statsDocument(found)
        const body = {
          queue: member(name, stats),
          status: found.status,
          stats,
          computed_at: timestamp(found.computedAt),
        }
        answer(response, 200, JSON.stringify(body))
      },
    },
    {
      method: 'POST',
      path: `${QUEUES}/:name/pause`,
      access: ['operator'],
      async handle(request, response) {
        await readOptionalJson(request, response, maxBodyBytes)
        const name = pathParameter(request, 'name')
        const { pausedAt } = await pauseQueue(deps, name, request.context)
        const queue = member(name, { paused: true })
        const body = { queue, status: 'paused', paused_at: timestamp(pausedAt) }
        answer(response, 200, JSON.stringify(body))
      },
    },
    {
      method: 'POST',
      path: `${QUEUES}/:name/resume`,
      access: ['operator'],
      async handle(request, response) {
        await readOptionalJson(request, response, maxBodyBytes)
        const name = pathParameter(request, 'name')
        const { resumedAt } = await resumeQueue(deps, name, request.context)
        const queue = member(name, { paused: false })
        const body = { queue, status: 'active', resumed_at: timestamp(resumedAt) }
        answer(response, 200, JSON.stringify(body))
      },
    },
  ]
}

/**
 * The members of seed 001 §11.2, whose example has the throughput of the last hour; then additions:
 * the states that it leaves out, and the depth of ojs-digest §6.2.
 */
function statsDocument({ counts, lastHour }: QueueStats): Record<string, number> {
  const { available, active, scheduled, retryable, discarded } = counts
  const { completed, failed, timed, durationMs, waited, waitMs } = lastHour
  return {
    available,
    active,
    scheduled,
    retryable,
    discarded,
    completed_last_hour: completed,
    failed_last_hour: failed,
    avg_duration_ms: average(durationMs, timed),
    avg_wait_ms: average(waitMs, waited),
    throughput_per_second: Number((completed / SECONDS_PER_HOUR).toPrecision(3)),
    pending: counts.pending,
    completed: counts.completed,
    cancelled: counts.cancelled,
    depth: available + scheduled + retryable,
  }
}

function average(sum: number, count: number): number {
  return count === 0 ? 0 : Math.round(sum / count)
}
