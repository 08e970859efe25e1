/** `/rate-limits`: concurrency keys and rates, with how many jobs run and wait (OJS rate limits). */
import { timestamp } from '../../job/document.ts'
import { formatDuration } from '../../job/values/duration.ts'
import {
  findLimit,
  isWaitingBound,
  type KnownLimit,
  listLimits,
} from '../../operations/fetch/known-limits.ts'
import { adminPageOf, memoryPagination, startOf } from '../message/page.ts'
import { answer } from '../message/respond.ts'
import { GET_RATE_LIMIT, LIST_RATE_LIMITS } from '../openapi/rate-limits.ts'
import { type Endpoint, pathParameter } from '../route.ts'
import type { Door } from './route-deps.ts'

export function rateLimitRoutes({ deps }: Door): Endpoint[] {
  return [
    {
      method: 'GET',
      path: '/ojs/v1/rate-limits',
      about: LIST_RATE_LIMITS,
      access: ['operator', 'reader'],
      async handle(request, response) {
        const page = adminPageOf(request)
        const { limits, total, isBound } = await listLimits(deps, startOf(page), page.limit)
        const items = limits.map(limitDocument)
        const pagination = memoryPagination(request, page, total, isBound)
        answer(response, 200, JSON.stringify({ items, pagination }))
      },
    },
    {
      method: 'GET',
      path: '/ojs/v1/rate-limits/:key',
      about: GET_RATE_LIMIT,
      access: ['operator', 'reader'],
      async handle(request, response) {
        const limit = await findLimit(deps, pathParameter(request, 'key'))
        answer(response, 200, JSON.stringify(limitDocument(limit)))
      },
    },
  ]
}

/** OJS's document has the limits apart; its admin console reads `limit`, `period`, `active` and `waiting` beside them. */
function limitDocument(known: KnownLimit): object {
  const { key, concurrency, starts } = known
  const rate = starts && rateDocument(starts)
  const waiting = (concurrency?.waiting ?? 0) + (starts?.waiting ?? 0)
  const limit = rate?.limit ?? concurrency?.limit ?? null
  return {
    key,
    ...(concurrency && { concurrency: concurrencyDocument(concurrency) }),
    ...(rate && { rate }),
    waiting_count: waiting,
    ...(isWaitingBound(known) && { waiting_is_lower_bound: true }),
    ...(limit !== null && { limit }),
    ...(rate && { period: rate.period }),
    active: concurrency?.active ?? 0,
    waiting,
  }
}

function concurrencyDocument({ limit, active }: NonNullable<KnownLimit['concurrency']>): object {
  if (limit === null) return { active }
  return { limit, active, available: Math.max(0, limit - active) }
}

function rateDocument({ limit, count, resetsAt }: NonNullable<KnownLimit['starts']>) {
  return {
    limit: limit.starts,
    period: formatDuration(Math.round(limit.windowMs)),
    current_count: count,
    ...(resetsAt !== null && { window_resets_at: timestamp(resetsAt) }),
  }
}
