/** Of `/rate-limits`. */
import type { Description } from './description.ts'
import { ADMIN_PAGE, PAGINATION } from './members.ts'
import { entity, INSTANT, INTEGER, list, object, TEXT, TRUE, told } from './schema.ts'

const LIMIT = entity('RateLimit', {
  key: told('A concurrency key, or `queue:<name>` for the rate of a queue.'),
  'concurrency?': object({
    'limit?': told('Of the next job; absent if it could not be found.', INTEGER),
    active: INTEGER,
    'available?': INTEGER,
  }),
  'rate?': object({
    limit: told('Of the job that asked last.', INTEGER),
    period: TEXT,
    current_count: INTEGER,
    'window_resets_at?': INSTANT,
  }),
  waiting_count: told('Counted up to 1,000 for each of both.', INTEGER),
  'waiting_is_lower_bound?': TRUE,
  'limit?': told('Of `rate`, else of `concurrency`.', INTEGER),
  'period?': TEXT,
  active: INTEGER,
  waiting: told('The same as `waiting_count`.', INTEGER),
})

export const LIST_RATE_LIMITS: Description = {
  id: 'listRateLimits',
  tag: 'queues',
  summary: 'List what limits the start of jobs',
  query: ADMIN_PAGE,
  answers: { 200: object({ items: list(LIMIT), pagination: PAGINATION }) },
}

export const GET_RATE_LIMIT: Description = {
  id: 'getRateLimit',
  tag: 'queues',
  summary: 'Read one of them',
  answers: { 200: LIMIT },
}
