/** Of `/queues`, and of the queues of the Admin API. */
import {
  CREATE_QUEUE_SCHEMA,
  DELETE_QUEUE_SCHEMA,
  PURGE_SCHEMA,
  QUEUE_CONFIG_SCHEMA,
} from '../../schemas/requests/admin.ts'
import type { Description } from './description.ts'
import { ADMIN_PAGE, COUNTS, ONE_QUEUE, PAGE, PAGINATION } from './members.ts'
import {
  BOOLEAN,
  entity,
  INSTANT,
  INTEGER,
  list,
  MAP,
  NUMBER,
  object,
  oneOf,
  type Schema,
  TEXT,
  TRUE,
  told,
} from './schema.ts'

const STATUS = oneOf(['active', 'paused'])
const ADMIN_STATE = oneOf(['active', 'paused', 'draining'])

const DRAIN = {
  draining_since: INSTANT,
  jobs_left: told('Jobs that are not over.', INTEGER),
  drained: told('None is left.', BOOLEAN),
}

const OLDEST = {
  'oldest_available_at?': told('When the job that waits longest came into the queue.', INSTANT),
  'oldest_available_age_seconds?': INTEGER,
  'oldest_overdue_retry_at?': INSTANT,
  'oldest_overdue_schedule_at?': INSTANT,
}

const STATS = {
  available: INTEGER,
  active: INTEGER,
  scheduled: INTEGER,
  retryable: INTEGER,
  discarded: INTEGER,
  completed_last_hour: INTEGER,
  failed_last_hour: INTEGER,
  avg_duration_ms: INTEGER,
  avg_wait_ms: INTEGER,
  throughput_per_second: NUMBER,
  pending: INTEGER,
  completed: INTEGER,
  cancelled: INTEGER,
  depth: told('Jobs still to run: available, scheduled and retryable.', INTEGER),
  held: told('Available jobs that their concurrency keys hold back.', INTEGER),
}

/** Its name; with `OJS_DIALECT=conformance` an object. */
const QUEUE_MEMBER: Schema = {
  type: ['string', 'object'],
  description: 'The name of the queue; with `OJS_DIALECT=conformance` an object that has it.',
}

export const LIST_QUEUES: Description = {
  id: 'listQueues',
  tag: 'queues',
  summary: 'List the queues',
  query: PAGE,
  answers: {
    200: object({
      queues: list(
        entity('Queue', {
          name: TEXT,
          status: STATUS,
          created_at: INSTANT,
          pending: told('Jobs that wait to run.', INTEGER),
          active: INTEGER,
          ...OLDEST,
        }),
      ),
      pagination: PAGINATION,
    }),
  },
}

export const QUEUE_PRIORITIES: Description = {
  id: 'getQueuePriorities',
  tag: 'queues',
  summary: 'Count the available jobs of a queue by their priority',
  answers: {
    200: object({
      queue: TEXT,
      distribution: told(
        'The highest priority first.',
        list(object({ priority: INTEGER, count: INTEGER })),
      ),
      'stats_are_partial?': told('Only the oldest jobs were counted: `searched`.', TRUE),
      'searched?': INTEGER,
    }),
  },
}

export const GET_QUEUE: Description = {
  id: 'getQueue',
  tag: 'queues',
  summary: 'Read a queue: state, settings and counts',
  answers: {
    200: object({
      name: TEXT,
      state: ADMIN_STATE,
      paused: BOOLEAN,
      queue: object({ name: TEXT, paused: BOOLEAN }),
      depth: told('Jobs still to run: available, scheduled and retryable.', INTEGER),
      running: INTEGER,
      config: told('What is set for this queue; see `PUT …/config`.', MAP),
      stats: object({
        depth: INTEGER,
        available: INTEGER,
        active: INTEGER,
        retryable: INTEGER,
        scheduled: INTEGER,
        completed_today: told('Since midnight, UTC.', INTEGER),
        failed_today: INTEGER,
      }),
      ...OLDEST,
      created_at: INSTANT,
    }),
  },
}

export const QUEUE_STATS: Description = {
  id: 'getQueueStats',
  tag: 'queues',
  summary: 'Count the jobs of a queue by state, with figures of the last hour',
  answers: {
    200: object({
      ...STATS,
      queue: QUEUE_MEMBER,
      status: STATUS,
      stats: entity('QueueStats', STATS),
      ...OLDEST,
      computed_at: INSTANT,
    }),
  },
}

export const PAUSE_OR_RESUME: Readonly<Record<'pause' | 'resume', Description>> = {
  pause: {
    id: 'pauseQueue',
    tag: 'queues',
    summary: 'Refuse new jobs of a queue, and hand out none',
    body: MAP,
    isBodyOptional: true,
    answers: { 200: object({ queue: QUEUE_MEMBER, status: STATUS, paused_at: INSTANT }) },
  },
  resume: {
    id: 'resumeQueue',
    tag: 'queues',
    summary: 'End the pause of a queue',
    body: MAP,
    isBodyOptional: true,
    answers: { 200: object({ queue: QUEUE_MEMBER, status: STATUS, resumed_at: INSTANT }) },
  },
}

const PER_MINUTE = { processed_per_minute: NUMBER, failed_per_minute: NUMBER }

const MESSAGES = entity('QueueMessages', {
  ready: INTEGER,
  consumers: INTEGER,
  held: told('Deliveries that this gateway holds: buffered, or with workers over HTTP.', INTEGER),
  'unacknowledged?': told(
    'Of all consumers, some seconds old. With `OJS_MANAGEMENT_URL`.',
    INTEGER,
  ),
  held_back: told('Available jobs that concurrency keys hold back, without a message.', INTEGER),
  missing: told('Available jobs that have lost their messages; 0 if they are few.', INTEGER),
})

const WITH_RABBITMQ = {
  include: told('`rabbitmq`: also what RabbitMQ has of the queue.', oneOf(['rabbitmq'])),
}

const ADMIN_QUEUE = {
  name: TEXT,
  state: ADMIN_STATE,
  paused: BOOLEAN,
  'paused_at?': INSTANT,
  counts: COUNTS,
  'draining_since?': INSTANT,
  'jobs_left?': DRAIN.jobs_left,
  'drained?': DRAIN.drained,
  throughput: told('Means of the last five whole minutes.', object(PER_MINUTE)),
  'latency_ms?': told(
    'How long jobs waited within the last hour; off by 9 % at most.',
    object({ p50: NUMBER, p95: NUMBER, p99: NUMBER }),
  ),
  ...OLDEST,
  created_at: INSTANT,
  'rabbitmq?': told('If asked for, and RabbitMQ answers.', MESSAGES),
}

export const LIST_ADMIN_QUEUES: Description = {
  id: 'listAdminQueues',
  tag: 'admin',
  summary: 'List the queues with counts, throughput and the oldest waiting job',
  query: { ...ADMIN_PAGE, ...WITH_RABBITMQ },
  answers: {
    200: object({ items: list(entity('AdminQueue', ADMIN_QUEUE)), pagination: PAGINATION }),
  },
}

const QUEUE_DETAIL = entity('AdminQueueDetail', {
  ...ADMIN_QUEUE,
  configuration: told('What is set for this queue; see `PUT …/config`.', MAP),
})

export const GET_ADMIN_QUEUE: Description = {
  id: 'getAdminQueue',
  tag: 'admin',
  summary: 'Read a queue with counts, throughput and the oldest waiting job',
  query: WITH_RABBITMQ,
  answers: { 200: QUEUE_DETAIL },
}

/** How many workers are in each state. */
export const WORKER_SUMMARY = entity('WorkerSummary', {
  total: INTEGER,
  running: INTEGER,
  quiet: INTEGER,
  terminate: INTEGER,
  stale: INTEGER,
})

export const ADMIN_STATS: Description = {
  id: 'getStats',
  tag: 'admin',
  summary: 'Count the jobs of all queues, or of one',
  query: ONE_QUEUE,
  answers: {
    200: object({
      queues: INTEGER,
      jobs: COUNTS,
      throughput: object({
        ...PER_MINUTE,
        enqueued_per_min: INTEGER,
        completed_per_min: INTEGER,
        failed_per_min: INTEGER,
        'avg_latency_ms?': INTEGER,
        'avg_duration_ms?': INTEGER,
      }),
      ...OLDEST,
      queue_summary: object({ total: INTEGER, active: INTEGER, paused: INTEGER }),
      workers: INTEGER,
      worker_summary: WORKER_SUMMARY,
      uptime_seconds: INTEGER,
    }),
  },
}

const POINT = entity('StatsPoint', {
  timestamp: INSTANT,
  processed: INTEGER,
  completed: INTEGER,
  failed: INTEGER,
  retried: INTEGER,
  enqueued: INTEGER,
  ...Object.fromEntries(
    ['latency', 'duration'].flatMap((what) =>
      ['p50', 'p95', 'p99'].map((share) => [`${what}_${share}_ms?`, NUMBER]),
    ),
  ),
  'avg_latency_ms?': NUMBER,
})

export const STATS_HISTORY: Description = {
  id: 'getStatsHistory',
  tag: 'admin',
  summary: 'Read statistics over time',
  query: {
    period: told('Of each point; default `5m`.', oneOf(['1m', '5m', '1h', '1d'])),
    since: told('A time, or a duration: so long ago. Default: an hour before `until`.'),
    until: told('A time, or a duration: so long ago. Default: now.'),
    ...ONE_QUEUE,
  },
  answers: {
    200: object({
      period: oneOf(['1m', '5m', '1h', '1d']),
      data: list(POINT),
      data_points: told('The same as `data`.', list(POINT)),
    }),
  },
}

export const RECOVER: Description = {
  id: 'recoverQueue',
  tag: 'admin',
  summary: 'Publish the jobs of a lost queue again',
  body: {
    type: 'object',
    properties: { dry_run: { type: ['boolean', 'null'], description: 'Only count and list.' } },
  },
  isBodyOptional: true,
  answers: {
    200: {
      anyOf: [
        object({ queue: TEXT, republished: INTEGER }),
        object({
          queue: TEXT,
          dry_run: TRUE,
          jobs_without_message: INTEGER,
          job_ids: told('The first hundred.', list(TEXT)),
        }),
      ],
    },
  },
  errors: [409],
}

export const ADMIN_PAUSE: Description = {
  id: 'pauseAdminQueue',
  tag: 'admin',
  summary: 'Pause a queue that is known',
  body: MAP,
  isBodyOptional: true,
  answers: {
    200: object({ name: TEXT, state: oneOf(['paused']), paused: BOOLEAN, paused_at: INSTANT }),
  },
}

export const ADMIN_RESUME: Description = {
  id: 'resumeAdminQueue',
  tag: 'admin',
  summary: 'Resume a queue that is known',
  body: MAP,
  isBodyOptional: true,
  answers: {
    200: object({ name: TEXT, state: oneOf(['active']), paused: BOOLEAN, resumed_at: INSTANT }),
  },
}

export const CREATE_QUEUE: Description = {
  id: 'createQueue',
  tag: 'queues',
  summary: 'Create a queue before its first job',
  body: CREATE_QUEUE_SCHEMA,
  answers: {
    201: object({ name: TEXT, state: oneOf(['active']), config: MAP, created_at: INSTANT }),
  },
  errors: [409, 422],
}

export const PURGE_QUEUE: Description = {
  id: 'purgeQueue',
  tag: 'admin',
  summary: 'Remove jobs of a queue by state and age',
  query: {
    states: told('Comma-separated, instead of a body.'),
    older_than: told('A time, or a duration: so long ago.'),
    confirm: BOOLEAN,
    dry_run: told('Only count.', BOOLEAN),
  },
  body: PURGE_SCHEMA,
  isBodyOptional: true,
  answers: {
    200: {
      anyOf: [
        object({
          purged_count: INTEGER,
          states: list(TEXT),
          'kept_for_workflows?': told(
            'Steps that stay with their workflows; those that waited are cancelled.',
            INTEGER,
          ),
          'has_more?': told('Repeat the request.', TRUE),
        }),
        object({
          dry_run: TRUE,
          states: list(TEXT),
          matched: INTEGER,
          'matched_is_lower_bound?': TRUE,
        }),
      ],
    },
  },
}

export const DRAIN_QUEUE: Description = {
  id: 'drainQueue',
  tag: 'admin',
  summary: 'Refuse new jobs of a queue, and let it run empty',
  body: MAP,
  isBodyOptional: true,
  answers: { 200: object({ name: TEXT, state: oneOf(['draining']), ...DRAIN }) },
}

export const CONFIGURE_QUEUE: Description = {
  id: 'configureQueue',
  tag: 'admin',
  summary: 'Set limits and the default retry policy of a queue, which is created if it is new',
  body: QUEUE_CONFIG_SCHEMA,
  answers: { 200: QUEUE_DETAIL },
  errors: [409, 422],
}

export const DELETE_QUEUE: Description = {
  id: 'deleteQueue',
  tag: 'admin',
  summary: 'Delete a queue without jobs and consumers, in RabbitMQ, too',
  query: { strategy: told('Instead of a body. Only `reject`: a queue with jobs stays.') },
  body: DELETE_QUEUE_SCHEMA,
  isBodyOptional: true,
  answers: {
    200: object({
      queue: TEXT,
      strategy: oneOf(['reject']),
      jobs_affected: INTEGER,
      state: oneOf(['deleted']),
    }),
  },
  errors: [409, 422],
}
