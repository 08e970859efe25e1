/** Statistics of everything, and queues, as OJS's Admin API shows and changes them. */
import type { Request } from 'express'
import { echoed, invalidField, notFound } from '../../errors.ts'
import { timestamp } from '../../job/document.ts'
import { createQueue } from '../../operations/queues/create.ts'
import { pauseQueue, resumeQueue } from '../../operations/queues/pause.ts'
import { listQueues, recentWaits } from '../../operations/queues/queues.ts'
import { messagesOf } from '../../operations/rabbitmq.ts'
import { requireQueueInScope } from '../../operations/scope.ts'
import { purgeQueue, requireOneMeaning } from '../../operations/search/purge.ts'
import { listWorkers } from '../../operations/workers/workers.ts'
import { readJson, readOptionalJson } from '../message/body.ts'
import { adminPageOf, memoryPagination, startOf } from '../message/page.ts'
import { filterText, flag, list, parameter } from '../message/query.ts'
import { answer, answerDryRun } from '../message/respond.ts'
import {
  ADMIN_PAUSE,
  ADMIN_RESUME,
  ADMIN_STATS,
  CREATE_QUEUE,
  GET_ADMIN_QUEUE,
  LIST_ADMIN_QUEUES,
  PURGE_QUEUE,
} from '../openapi/queues.ts'
import { type Endpoint, pathParameter } from '../route.ts'
import { adminQueue, adminStats, messageMembers } from './queue-documents.ts'
import { queueCommand } from './queues.ts'
import type { Door } from './route-deps.ts'
import { queueDetail } from './steer/queues.ts'

const ALL = { limit: Number.POSITIVE_INFINITY, offset: 0 }

/** Statistics and queues (OJS admin API; not part of the seeds). */
export function adminQueueRoutes({ deps, health }: Door): Endpoint[] {
  return [
    ...changeRoutes({ deps }),
    {
      method: 'GET',
      path: '/ojs/v1/admin/stats',
      about: ADMIN_STATS,
      access: ['operator', 'reader'],
      scoping: 'own',
      async handle(request, response) {
        const { context } = request
        const name = filterText(request, 'queue')
        if (name !== null) requireQueueInScope(context, name, 'queue')
        const { queues } = await listQueues(deps, ALL, name === null ? context.queues : [name])
        const { total, ...summary } = (await listWorkers(deps, { limit: 0, offset: 0 })).summary
        const stats = {
          ...adminStats(queues),
          workers: total,
          worker_summary: { total, ...summary },
          uptime_seconds: (await health()).body.uptime_seconds,
        }
        answer(response, 200, JSON.stringify(stats))
      },
    },
    {
      method: 'GET',
      path: '/ojs/v1/admin/queues',
      about: LIST_ADMIN_QUEUES,
      access: ['operator', 'reader'],
      scoping: 'own',
      async handle(request, response) {
        const page = adminPageOf(request)
        const place = { limit: page.limit, offset: startOf(page) }
        const { queues, total } = await listQueues(deps, place, request.context.queues)
        const names = queues.map(({ name }) => name)
        const messages = includesRabbitmq(request) ? await messagesOf(deps, names) : undefined
        const items = await Promise.all(
          queues.map(async (queue) => ({
            ...adminQueue(queue, await recentWaits(deps, queue.name)),
            ...messageMembers(messages?.get(queue.name)),
          })),
        )
        const pagination = memoryPagination(request, page, total)
        answer(response, 200, JSON.stringify({ items, pagination }))
      },
    },
    {
      method: 'GET',
      path: '/ojs/v1/admin/queues/:name',
      about: GET_ADMIN_QUEUE,
      access: ['operator', 'reader'],
      scoping: 'queue',
      async handle(request, response) {
        const name = pathParameter(request, 'name')
        answer(response, 200, await queueDetail(deps, name, includesRabbitmq(request)))
      },
    },
  ]
}

function changeRoutes({ deps }: Pick<Door, 'deps'>): Endpoint[] {
  const ofQueue = '/ojs/v1/admin/queues/:name'
  return [
    queueCommand(deps, `${ofQueue}/pause`, ADMIN_PAUSE, async (given, context) => {
      const name = knownQueue(deps, given)
      const { pausedAt } = await pauseQueue(deps, name, context)
      return { name, state: 'paused', paused: true, paused_at: timestamp(pausedAt) }
    }),
    queueCommand(deps, `${ofQueue}/resume`, ADMIN_RESUME, async (given, context) => {
      const name = knownQueue(deps, given)
      const { resumedAt } = await resumeQueue(deps, name, context)
      return { name, state: 'active', paused: false, resumed_at: timestamp(resumedAt) }
    }),
    {
      method: 'POST',
      path: '/ojs/v1/queues',
      about: CREATE_QUEUE,
      async handle(request, response) {
        const body = await readJson(request, response, deps.settings.maxBodyBytes)
        const { name, createdAt } = await createQueue(deps, body, request.context)
        const created = { name, state: 'active', config: {}, created_at: timestamp(createdAt) }
        answer(response, 201, JSON.stringify(created))
      },
    },
    {
      method: 'DELETE',
      path: `${ofQueue}/jobs`,
      about: PURGE_QUEUE,
      scoping: 'queue',
      async handle(request, response) {
        const given = await readOptionalJson(request, response, deps.settings.maxBodyBytes)
        const body = requireOneMeaning(given, purgeQuery(request))
        const done = await purgeQueue(deps, pathParameter(request, 'name'), body, request.context)
        const document = JSON.stringify(purgeDocument(done))
        if ('matched' in done) answerDryRun(response, document)
        else answer(response, 200, document)
      },
    },
  ]
}

/** Throws 400 for another word. */
function includesRabbitmq(request: Request): boolean {
  const text = parameter(request, 'include')
  if (text === null || text === 'rabbitmq') return text !== null
  throw invalidField('include', "The 'include' parameter must name rabbitmq.", {
    expected: ['rabbitmq'],
    received: echoed(text),
  })
}

function knownQueue(deps: Door['deps'], name: string): string {
  if (!deps.ledger.known.hasQueue(name)) throw notFound('queue', name)
  return name
}

const PURGE_MEMBERS = ['states', 'older_than', 'confirm', 'dry_run']

/** The members of the body as query parameters: proxies drop the body of a DELETE. */
function purgeQuery(request: Request): Record<string, unknown> {
  const unknown = Object.keys(request.query).find((name) => !PURGE_MEMBERS.includes(name))
  if (unknown !== undefined) {
    throw invalidField(unknown, `There is no parameter '${echoed(unknown)}' here.`, {
      expected: [...PURGE_MEMBERS],
    })
  }
  const states = list(request, 'states')
  const olderThan = filterText(request, 'older_than')
  return {
    ...(states.size > 0 && { states: [...states] }),
    ...(olderThan !== null && { older_than: olderThan }),
    ...(request.query['confirm'] !== undefined && { confirm: flag(request, 'confirm') }),
    ...(request.query['dry_run'] !== undefined && { dry_run: flag(request, 'dry_run') }),
  }
}

function purgeDocument(done: Awaited<ReturnType<typeof purgeQueue>>): object {
  const { states } = done
  if ('matched' in done) {
    const { matched, isBound } = done
    return { dry_run: true, states, matched, ...(isBound && { matched_is_lower_bound: true }) }
  }
  const { purged, kept, hasMore } = done
  return {
    purged_count: purged,
    states,
    ...(kept > 0 && { kept_for_workflows: kept }),
    ...(hasMore && { has_more: true }),
  }
}
