/** What the answers of several endpoints have in common: the job, pages of lists. */
import { JOB_STATES } from '../../job/job.ts'
import {
  ANY,
  BOOLEAN,
  entity,
  INSTANT,
  INTEGER,
  list,
  MAP,
  object,
  oneOf,
  type Schema,
  TEXT,
  TRUE,
  told,
} from './schema.ts'

export const ID = told('A UUIDv7, in lower case.')
export const STATE: Schema = { ...oneOf(JOB_STATES), title: 'JobState' }

/** Of a job's `error`; what is withheld from readers is absent. */
export const FAILURE = entity('Failure', {
  'attempt?': told('Of attempts that ended without a report, like the times.', INTEGER),
  'occurred_at?': INSTANT,
  'timestamp?': INSTANT,
  'code?': TEXT,
  'type?': TEXT,
  message: TEXT,
  'retryable?': BOOLEAN,
  'details?': MAP,
  'backtrace?': told('A text, or a list of frames.', { type: ['string', 'array'] }),
})

const ATTEMPT_FAILURE = entity('AttemptFailure', {
  attempt: INTEGER,
  'code?': TEXT,
  'type?': TEXT,
  message: TEXT,
  'retryable?': BOOLEAN,
  occurred_at: INSTANT,
  timestamp: told('The same as `occurred_at`.', INSTANT),
  'details?': MAP,
  'backtrace?': told('A text, or a list of frames.', { type: ['string', 'array'] }),
})

/** What never changes of a job, and what does (seed 003; `job/envelope.ts`, `job/document.ts`). */
const JOB_MEMBERS = {
  specversion: TEXT,
  id: ID,
  type: TEXT,
  queue: TEXT,
  args: list(ANY),
  meta: MAP,
  priority: told('-100 to 100, the highest first.', INTEGER),
  timeout_ms: told('How long an attempt may take; 0: no limit.', INTEGER),
  'timeout?': told('In seconds; only if the request had it.', INTEGER),
  'visibility_timeout_ms?': told('Its lease: how long its worker may be silent.', INTEGER),
  'visibility_timeout?': told('In seconds, or as a duration; only if the request had it.', {
    type: ['integer', 'string'],
  }),
  'scheduled_at?': told('Not before this time.', INSTANT),
  'expires_at?': told('Not after this time.', INSTANT),
  max_attempts: told('Executions in all, including the first.', INTEGER),
  'retry?': told('As it was given.', MAP),
  'retry_extra?': MAP,
  'unique?': told('As it was given.', MAP),
  'unique_extra?': MAP,
  tags: list(TEXT),
  'schema?': told('The URI of the schema that `args` match.'),
  'rate_limit?': MAP,
  'result_ttl?': told('For how many seconds its result is kept; -1: as long as the job.', INTEGER),
  'concurrency?': told(
    'At most `limit` jobs of the key are active at once.',
    object({ 'key?': TEXT, limit: INTEGER }),
  ),
  'options?': told('Options that this gateway does not know.', MAP),
  created_at: INSTANT,
  'workflow_id?': ID,
  'workflow_step?': TEXT,
  'parent_results?': told('The results of the steps before: a list, or an object by step.', {
    type: ['array', 'object'],
    additionalProperties: true,
  }),
  state: STATE,
  attempt: told('How often it was started.', INTEGER),
  'generation?': told('1 more each time an operator retries it; absent: 0.', INTEGER),
  enqueued_at: INSTANT,
  'held_by?': told(
    'Why it is not handed out although it is available.',
    object({ concurrency: told('The key of which as many jobs are active as it allows.') }),
  ),
  'activated_at?': INSTANT,
  'started_at?': INSTANT,
  'worker_id?': told('The worker that runs it.'),
  'next_attempt_at?': INSTANT,
  'retry_delay_ms?': INTEGER,
  'completed_at?': INSTANT,
  'cancelled_at?': INSTANT,
  'discarded_at?': INSTANT,
  'result?': told('Any JSON: the result of its ACK.', ANY),
  'error?': FAILURE,
  'errors?': list(ATTEMPT_FAILURE),
  'copy_of?': told('The job that it is a copy of.'),
  'retried_as?': told('The copy by which it was retried, with changes.'),
  'payload_withheld?': told('The key may not read args, results and messages.', TRUE),
} as const

/** A job. What else its producer sent stands beside these members. */
export const JOB: Schema = {
  ...entity('Job', JOB_MEMBERS),
  description: 'A job. Further members that its producer sent are kept and returned.',
}

/** A job with members that only this answer has. */
export function jobWith(more: Readonly<Record<string, Schema>>): Schema {
  return { allOf: [JOB, object(more)] }
}

/** `checkpoint` and `last_checkpoint` of a job. */
export const CHECKPOINT_MEMBERS = {
  'checkpoint?': object({ sequence: INTEGER, created_at: INSTANT, state: ANY }),
  'last_checkpoint?': told('The state alone.', ANY),
}

export const PAGINATION = entity('Pagination', {
  total: INTEGER,
  limit: INTEGER,
  'offset?': told('Absent if the page was asked for by a cursor.', INTEGER),
  'page?': INTEGER,
  'per_page?': INTEGER,
  has_more: BOOLEAN,
  'next_cursor?': told('There exactly if there is more, in lists that have cursors.'),
  'total_is_lower_bound?': told('There are more than `total`.', TRUE),
  'search_is_partial?': told(
    'Not all jobs that may match were looked at; `next_cursor`, if there, goes on.',
    TRUE,
  ),
  'searched?': told('How many were.', INTEGER),
})

const COUNT: Schema = { type: 'integer', minimum: 0 }

/** Query parameters of a list (seed 001 §17). */
export const PAGE = {
  limit: told('Items of a page: 50 if none is named, at most 100.', COUNT),
  offset: told('Items before the page.', COUNT),
  page: told('With `per_page`: the page, from 1.', COUNT),
  per_page: told('Items of a page, with `page`.', COUNT),
}

export const CURSOR = { cursor: told('`next_cursor` of the page before, in place of `offset`.') }

/** Query parameters of a list of the Admin API. */
export const ADMIN_PAGE = {
  ...PAGE,
  ...CURSOR,
  limit: told('Items of a page: 20 if none is named, at most 100.', COUNT),
}

export const ONE_QUEUE = { queue: told('Only of this queue.') }

/** How many jobs are in each state. */
export const COUNTS = entity(
  'JobCounts',
  Object.fromEntries(JOB_STATES.map((state) => [state, INTEGER])),
)
