/** Of `/events`, and of the history of a job. */
import { EVENT_SCHEMA } from '../../schemas/ojs/event.ts'
import type { Description } from './description.ts'
import { ID, STATE } from './members.ts'
import {
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
  TRUE,
  told,
} from './schema.ts'

const OF_EVENT = EVENT_SCHEMA.properties

/** OJS's event, as this gateway writes it. */
const EVENT = entity('Event', {
  specversion: OF_EVENT.specversion,
  id: OF_EVENT.id,
  type: OF_EVENT.type,
  source: OF_EVENT.source,
  time: OF_EVENT.time,
  subject: OF_EVENT.subject,
  data: { ...OF_EVENT.data, additionalProperties: true },
})

const TYPES = {
  types: told('Only these types, with commas.'),
  type: told('The same.'),
  event_types: told('The same.'),
}
const QUEUES = {
  queues: told('Only of these queues, with commas.'),
  queue: told('The same.'),
}

export const LIST_EVENTS: Description = {
  id: 'listEvents',
  tag: 'events',
  summary: 'List the newest events of this process',
  query: {
    ...TYPES,
    ...QUEUES,
    after: told('Only after the event of this id: `cursor` of the page before.'),
    limit: told('100 if none is named, at most 1,000.', INTEGER),
  },
  answers: {
    200: object({
      events: list(EVENT),
      cursor: told('The `after` of the next request.', nullable(TEXT)),
      has_more: BOOLEAN,
      gap: told('Events after `after` have already been dropped.', BOOLEAN),
    }),
  },
}

const RECORD = entity('HistoryRecord', {
  id: TEXT,
  job_id: ID,
  event_type: TEXT,
  timestamp: INSTANT,
  actor: object({ type: oneOf(['worker', 'client', 'system']), id: TEXT }),
  data: MAP,
  'metadata?': object({ request_id: TEXT }),
})

export const JOB_HISTORY: Description = {
  id: 'getHistory',
  tag: 'jobs',
  summary: "Read every change of a job's state",
  query: {
    limit: told('50 if none is named, at most 1,000.', INTEGER),
    cursor: told('`next_cursor` of the page before.'),
    offset: told('Records before the page, in place of `cursor`.', INTEGER),
  },
  answers: {
    200: object({
      events: list(RECORD),
      next_cursor: nullable(TEXT),
      total: INTEGER,
      pagination: object({ total: INTEGER, limit: INTEGER, offset: INTEGER, has_more: BOOLEAN }),
      'truncated?': told('Older records are gone.', TRUE),
    }),
  },
}

export const CLEAR_HISTORY: Description = {
  id: 'deleteHistory',
  tag: 'jobs',
  summary: 'Forget what is recorded of a job so far',
  answers: { 200: object({ deleted: TRUE, events_deleted: INTEGER, job_id: ID }) },
}

export const JOB_RETRIES: Description = {
  id: 'listRetries',
  tag: 'jobs',
  summary: 'List the failed attempts of a job',
  answers: {
    200: object({
      job_id: ID,
      retries: list(
        object({
          attempt: INTEGER,
          state: STATE,
          error: TEXT,
          started_at: nullable(INSTANT),
          failed_at: INSTANT,
          next_retry_at: nullable(INSTANT),
        }),
      ),
      policy: object({ max_attempts: INTEGER }),
    }),
  },
}

const STREAM = told('Server-sent events.', {
  type: 'string',
  contentMediaType: 'text/event-stream',
})

export const STREAM_EVENTS: Description = {
  id: 'streamEvents',
  tag: 'events',
  summary: 'Follow what happens, as server-sent events',
  query: {
    ...TYPES,
    ...QUEUES,
    channel: told('`all`, `job:<id>` or `queue:<name>`.'),
  },
  answers: { 200: STREAM, 204: null },
}

export const STREAM_JOB_EVENTS: Description = {
  id: 'streamJobEvents',
  tag: 'events',
  summary: 'Follow a job until it ends, as server-sent events',
  query: TYPES,
  answers: { 200: STREAM, 204: null },
}

export const STREAM_PROGRESS: Description = {
  id: 'streamProgress',
  tag: 'jobs',
  summary: 'Follow how far a job is until it ends, as server-sent events',
  answers: { 200: STREAM, 204: null },
}

export const STREAM_QUEUE_EVENTS: Description = {
  id: 'streamQueueEvents',
  tag: 'events',
  summary: 'Follow a queue, as server-sent events',
  query: TYPES,
  answers: { 200: STREAM },
}

export const STREAM_STATS: Description = {
  id: 'streamStats',
  tag: 'events',
  summary: 'Statistics every second, as server-sent events',
  answers: { 200: STREAM },
}
