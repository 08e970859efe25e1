/** Of the lists of jobs by filter, and of the whole job of the Admin API. */
import { JOB_STATES } from '../../job/job.ts'
import type { Description } from './description.ts'
import {
  ADMIN_PAGE,
  CURSOR,
  FAILURE,
  ID,
  JOB,
  jobWith,
  PAGE,
  PAGINATION,
  STATE,
} from './members.ts'
import {
  ANY,
  BOOLEAN,
  entity,
  INSTANT,
  INTEGER,
  list,
  MAP,
  nullable,
  object,
  oneOf,
  TEXT,
  told,
} from './schema.ts'

const AGO = 'A time, or a duration, which means so long ago.'

/** The members of a filter (`operations/search/parse-filter.ts`); `meta.KEY` has any name. */
export const FILTERS = {
  state: told(`One, or several with commas: ${JOB_STATES.join(', ')}.`),
  queue: told('One, or several with commas.'),
  id: told('One, or several with commas.'),
  type: told('One, or several with commas; `email.*` is every type that begins with `email.`.'),
  since: told(`Created from then on. ${AGO}`),
  until: told(`Created before. ${AGO}`),
  error_code: told('The code of its last error.'),
  error_type: told('The type of its last error.'),
  error_pattern: told(
    'The message of its last error, with `<n>`, `<id>` and `<text>` in place of what varies.',
  ),
  cron: told('The cron entry that made it.'),
  workflow_id: told('The workflow that made it.'),
  priority: told('Its priority.', INTEGER),
  held: told('Whether its concurrency key holds it back.', BOOLEAN),
  worker_id: told('The worker that runs it or ran it last.'),
  enqueued_since: told(`Put into its queue from then on. ${AGO}`),
  enqueued_until: told(`Put into its queue before. ${AGO}`),
  ended_since: told(`Ended from then on. ${AGO}`),
  ended_until: told(`Ended before. ${AGO}`),
  tag: told(
    'One, or several with commas: it has all of them. In a body an element of an array is one.',
  ),
  args: told('JSON that its `args` contain.'),
}

const ORDER = {
  sort: told(
    'Default: `created_at`.',
    oneOf(['created_at', 'scheduled_at', 'priority', 'updated_at']),
  ),
  order: told('Default: `desc`.', oneOf(['asc', 'desc'])),
}

const OF_META = 'A parameter `meta.KEY` is the value of `KEY` in its `meta`.'

export const FIND_JOBS: Description = {
  id: 'findJobs',
  tag: 'jobs',
  summary: 'Find jobs',
  description: OF_META,
  query: { ...FILTERS, ...ORDER, ...PAGE, ...CURSOR },
  answers: { 200: object({ jobs: list(JOB), total: INTEGER, pagination: PAGINATION }) },
}

export const ITEM = entity('JobItem', {
  id: ID,
  type: TEXT,
  queue: TEXT,
  state: STATE,
  priority: INTEGER,
  attempt: INTEGER,
  max_attempts: INTEGER,
  tags: list(TEXT),
  created_at: INSTANT,
  enqueued_at: INSTANT,
  'scheduled_at?': INSTANT,
  'started_at?': INSTANT,
  'completed_at?': INSTANT,
  'cancelled_at?': INSTANT,
  'discarded_at?': INSTANT,
  'next_attempt_at?': INSTANT,
  'expires_at?': INSTANT,
  'worker_id?': TEXT,
  'workflow_id?': ID,
  'error?': FAILURE,
  'args?': told('Only with `include=args`.', list(ANY)),
  'meta?': told('Only with `include=meta`.', MAP),
})

export const LIST_ADMIN_JOBS: Description = {
  id: 'listAdminJobs',
  tag: 'admin',
  summary: 'Find jobs; small items',
  description: OF_META,
  query: {
    ...FILTERS,
    ...ORDER,
    include: told('`args`, `meta`, or both with a comma: items have them.'),
    ...ADMIN_PAGE,
  },
  answers: { 200: object({ items: list(ITEM), pagination: PAGINATION }) },
}

const EITHER = nullable(INSTANT)

export const GET_ADMIN_JOB: Description = {
  id: 'getAdminJob',
  tag: 'admin',
  summary: 'Read everything that the gateway knows of a job',
  answers: {
    200: jobWith({
      'retry_policy?': told('The same as `retry`.', MAP),
      'options?': MAP,
      'trace_id?': told('Of the trace that it belongs to.'),
      metadata: object({
        created_at: INSTANT,
        enqueued_at: INSTANT,
        started_at: EITHER,
        scheduled_at: EITHER,
        completed_at: EITHER,
        cancelled_at: EITHER,
        discarded_at: EITHER,
      }),
    }),
  },
}
