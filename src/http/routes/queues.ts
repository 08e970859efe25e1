/** `/queues`: list, one in short, statistics, pause and resume. */
import { queueMember } from '../../dialect.ts'
import { timestamp } from '../../job/document.ts'
import type { RequestContext } from '../../operations/deps.ts'
import { configurationOf } from '../../operations/queues/configure.ts'
import { pauseQueue, resumeQueue } from '../../operations/queues/pause.ts'
import {
  findQueue,
  listQueues,
  type QueueStats,
  type QueueSummary,
  queuePriorities,
  queueStats,
  type Today,
  trafficToday,
} from '../../operations/queues/queues.ts'
import { readOptionalJson } from '../message/body.ts'
import { pageOf, pagination } from '../message/page.ts'
import { answer } from '../message/respond.ts'
import type { Description } from '../openapi/description.ts'
import {
  GET_QUEUE,
  LIST_QUEUES,
  PAUSE_OR_RESUME,
  QUEUE_PRIORITIES,
  QUEUE_STATS,
} from '../openapi/queues.ts'
import { type Endpoint, pathParameter } from '../route.ts'
import { configurationDocument, oldestMembers, stateOf } from './queue-documents.ts'
import type { Door } from './route-deps.ts'

const QUEUES = '/ojs/v1/queues'
const SECONDS_PER_HOUR = 3_600

/** Lists, describes, pauses and resumes queues (seed 001 §11). */
export function queueRoutes({ deps }: Door): Endpoint[] {
  const member = (name: string, facts: Record<string, number | boolean>) =>
    queueMember(deps.settings.dialect, name, facts)
  return [
    {
      method: 'GET',
      path: QUEUES,
      about: LIST_QUEUES,
      access: ['operator', 'reader'],
      scoping: 'own',
      async handle(request, response) {
        const page = pageOf(request)
        const { queues, total } = await listQueues(deps, page, request.context.queues)
        const items = queues.map(queueItem)
        answer(
          response,
          200,
          JSON.stringify({ queues: items, pagination: pagination(page, total) }),
        )
      },
    },
    queueRoute(deps),
    {
      method: 'GET',
      path: `${QUEUES}/:name/stats`,
      about: QUEUE_STATS,
      access: ['operator', 'reader'],
      scoping: 'queue',
      async handle(request, response) {
        const name = pathParameter(request, 'name')
        const found = await queueStats(deps, name)
        const stats = statsDocument(found)
        const body = {
          // Also beside `stats`, for clients that read them there, as `state` beside the job of INFO.
          ...stats,
          queue: member(name, stats),
          status: found.status,
          stats,
          ...oldestMembers(found.oldest, found.computedAt),
          computed_at: timestamp(found.computedAt),
        }
        answer(response, 200, JSON.stringify(body))
      },
    },
    prioritiesRoute(deps),
    queueCommand(deps, `${QUEUES}/:name/pause`, PAUSE_OR_RESUME.pause, async (name, context) => {
      const { pausedAt } = await pauseQueue(deps, name, context)
      const queue = member(name, { paused: true })
      return { queue, status: 'paused', paused_at: timestamp(pausedAt) }
    }),
    queueCommand(deps, `${QUEUES}/:name/resume`, PAUSE_OR_RESUME.resume, async (name, context) => {
      const { resumedAt } = await resumeQueue(deps, name, context)
      const queue = member(name, { paused: false })
      return { queue, status: 'active', resumed_at: timestamp(resumedAt) }
    }),
  ]
}

/** The route of a command to a queue; `carryOut` carries it out and returns the body of the answer. */
export function queueCommand(
  deps: Door['deps'],
  path: string,
  about: Description,
  carryOut: (name: string, context: RequestContext) => Promise<object>,
): Endpoint {
  return {
    method: 'POST',
    path,
    about,
    access: ['operator'],
    scoping: 'queue',
    async handle(request, response) {
      await readOptionalJson(request, response, deps.settings.maxBodyBytes)
      const body = await carryOut(pathParameter(request, 'name'), request.context)
      answer(response, 200, JSON.stringify(body))
    },
  }
}

function queueRoute(deps: Door['deps']): Endpoint {
  return {
    method: 'GET',
    path: `${QUEUES}/:name`,
    about: GET_QUEUE,
    access: ['operator', 'reader'],
    scoping: 'queue',
    async handle(request, response) {
      const name = pathParameter(request, 'name')
      const [queue, today] = await Promise.all([findQueue(deps, name), trafficToday(deps, name)])
      const config = configurationDocument(configurationOf(deps, name))
      answer(response, 200, JSON.stringify(queueDocument(queue, config, today)))
    },
  }
}

function prioritiesRoute(deps: Door['deps']): Endpoint {
  return {
    method: 'GET',
    path: `${QUEUES}/:name/priority-stats`,
    about: QUEUE_PRIORITIES,
    access: ['operator', 'reader'],
    scoping: 'queue',
    async handle(request, response) {
      const queue = pathParameter(request, 'name')
      const { counts, searched } = await queuePriorities(deps, queue)
      const distribution = [...counts]
        .toSorted(([a], [b]) => b - a)
        .map(([priority, count]) => ({ priority, count }))
      const partly = searched !== null && { stats_are_partial: true, searched }
      answer(response, 200, JSON.stringify({ queue, distribution, ...partly }))
    },
  }
}

/** `pending` is the word of autoscalers for the jobs that wait to run, not the state of that name. */
function queueItem({ name, status, createdAt, counts, oldest, computedAt }: QueueSummary): object {
  return {
    name,
    status,
    created_at: timestamp(createdAt),
    pending: counts.available,
    active: counts.active,
    ...oldestMembers(oldest, computedAt),
  }
}

/** OJS queue configuration; `depth`, `running` and `paused` at the root, where OJS's command line reads them. */
function queueDocument(queue: QueueSummary, config: object, today: Today): object {
  const { name, status, counts, oldest, createdAt, computedAt } = queue
  const { available, active, scheduled, retryable } = counts
  const paused = status === 'paused'
  const depth = available + scheduled + retryable
  return {
    name,
    state: stateOf(queue),
    paused,
    queue: { name, paused },
    depth,
    running: active,
    config,
    stats: {
      ...{ depth, available, active, retryable, scheduled },
      completed_today: today.completed,
      failed_today: today.failed,
    },
    ...oldestMembers(oldest, computedAt),
    created_at: timestamp(createdAt),
  }
}

/**
 * The members of seed 001 §11.2, with the throughput of the last hour as in its example. Then additions: the
 * states that §11.2 leaves out, and the depth of OJS queues.
 */
function statsDocument({ counts, held, lastHour }: QueueStats): Record<string, number> {
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
    held,
  }
}

function average(sum: number, count: number): number {
  return count === 0 ? 0 : Math.round(sum / count)
}
