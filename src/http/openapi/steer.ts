/** Of what operators do to jobs: `/admin/jobs/:id/…`, `/jobs/bulk`, `/admin/operations`. */
import { JOB_STATES } from '../../job/job.ts'
import { JOB_ACTIONS, type JobAction } from '../../job/steer.ts'
import { PRIORITY_SCHEMA } from '../../schemas/requests/admin.ts'
import { type Description, under } from './description.ts'
import { ADMIN_PAGE, ID, JOB, jobWith, PAGINATION, STATE } from './members.ts'
import {
  BOOLEAN,
  entity,
  INSTANT,
  INTEGER,
  list,
  MAP,
  object,
  oneOf,
  TEXT,
  TRUE,
  told,
} from './schema.ts'

/** Changes to the copy of a job. */
export const OVERRIDE = object(
  {
    'override?': told('Options of a job; `meta` is merged, anything else replaced.', MAP),
  },
  { additionalProperties: false },
)

export const CANCEL_ADMIN_JOB: Description = {
  id: 'cancelAdminJob',
  tag: 'admin',
  summary: 'Cancel a job',
  body: MAP,
  isBodyOptional: true,
  answers: { 200: object({ job: jobWith({ previous_state: STATE }) }) },
  errors: [409],
}

export const RETRY_ADMIN_JOB: Description = {
  id: 'retryAdminJob',
  tag: 'admin',
  summary: 'Run an ended job again, or a retry now',
  body: MAP,
  isBodyOptional: true,
  answers: { 200: object({ job: jobWith({ previous_state: STATE, re_enqueued_at: INSTANT }) }) },
  errors: [409],
}

export const COPY_JOB: Description = {
  id: 'copyJob',
  tag: 'admin',
  summary: 'Enqueue a copy of a job, with changes',
  body: OVERRIDE,
  isBodyOptional: true,
  isIdempotent: true,
  answers: { 200: object({ job: JOB }), 201: object({ job: JOB }) },
  errors: [409, 422],
}

export const DELETE_ADMIN_JOB: Description = {
  id: 'deleteAdminJob',
  tag: 'admin',
  summary: 'Delete an ended job for good',
  answers: { 204: null },
  errors: [409],
}

const JOB_PATHS = ['/ojs/v1/admin/jobs/:id', '/ojs/v1/jobs/:id']

export function prioritizeUnder(path: string): Description {
  return under(path, JOB_PATHS, {
    id: 'prioritizeJob',
    tag: 'admin',
    summary: 'Give a job that waits another priority',
    body: PRIORITY_SCHEMA,
    answers: { 200: object({ job: JOB }) },
    errors: [409],
  })
}

const FILTER = told('The members of the filters of `GET /ojs/v1/admin/jobs`.', MAP)
const ASYNC = { 'async?': told('Answer 202 at once with the operation.', BOOLEAN) }
const CONFIRMED = {
  'confirm?': told('Must be `true`, except with `dry_run`.', BOOLEAN),
  'dry_run?': told('Change nothing, and say how many jobs match, with a sample.', BOOLEAN),
}
const LIMIT = { 'limit?': told('Default: 10,000; with `async`: none.', INTEGER) }
const DONE = { 'retried?': INTEGER, 'cancelled?': INTEGER, 'deleted?': INTEGER }
const COUNTS = {
  matched: told('Jobs that it met.', INTEGER),
  succeeded: INTEGER,
  failed: told('Jobs that it left alone.', INTEGER),
  ...DONE,
  errors: list(object({ job_id: ID, error: TEXT, reason: TEXT })),
  'errors_truncated?': TRUE,
  has_more: told('It ended at its limit, and more jobs match.', BOOLEAN),
}
const ACTION = oneOf(JOB_ACTIONS)
const OPERATION_STATE = oneOf(['running', 'completed', 'stopped'])

const OPERATION = entity('Operation', {
  id: ID,
  action: ACTION,
  state: OPERATION_STATE,
  filter: MAP,
  states: told('The states in which it touches jobs.', list(oneOf(JOB_STATES))),
  'limit?': INTEGER,
  expected: told('How many jobs matched when it began.', INTEGER),
  'expected_is_lower_bound?': TRUE,
  ...COUNTS,
  'started_by?': told('The name of the key.'),
  'request_id?': TEXT,
  created_at: INSTANT,
  updated_at: INSTANT,
  'ended_at?': INSTANT,
})

const DRY_RUN = object({
  action: ACTION,
  dry_run: TRUE,
  matched: INTEGER,
  'matched_is_lower_bound?': TRUE,
  states: list(oneOf(JOB_STATES)),
  sample: list(ID),
})

/** What an action on the jobs of a filter answers; 202: it goes on. */
const BULK_ANSWERS = {
  200: {
    anyOf: [
      object({ action: ACTION, ...COUNTS, 'operation_id?': ID, 'state?': OPERATION_STATE }),
      DRY_RUN,
    ],
  },
  202: OPERATION,
}

const IDS = { 'job_ids?': told('1 to 1,000 of them, in place of `filter`.', list(ID)) }
const VERB = { retry: 'Retry', cancel: 'Cancel', delete: 'Delete' } as const
const named = (start: string, action: JobAction) => `${start}${VERB[action]}`

export function adminBulkOf(action: JobAction): Description {
  return {
    id: named('adminBulk', action),
    tag: 'admin',
    summary: `${VERB[action]} the jobs that match a filter`,
    body: object({ 'filter?': FILTER, ...IDS, ...CONFIRMED, ...LIMIT, ...ASYNC }),
    answers: BULK_ANSWERS,
    errors: [413, 429],
  }
}

export function dataBulkOf(action: JobAction): Description {
  const items = list(
    object({ index: INTEGER, job_id: ID, status: TEXT, 'reason?': told('Why it was skipped.') }),
  )
  const done = object({
    total_matched: INTEGER,
    ...DONE,
    skipped: INTEGER,
    failed: INTEGER,
    'items?': items,
    has_more: BOOLEAN,
    'operation_id?': ID,
    'state?': OPERATION_STATE,
  })
  return {
    id: named('bulk', action),
    tag: 'jobs',
    summary: `${VERB[action]} jobs by ids or by filter, with a result for each`,
    body: object({
      'filter?': FILTER,
      ...IDS,
      'atomicity?': oneOf(['partial', 'atomic']),
      'dry_run?': BOOLEAN,
    }),
    answers: { 200: { anyOf: [done, DRY_RUN] }, 202: done, 207: done, 422: done },
    errors: [413, 429],
  }
}

const MANY = object({
  total: INTEGER,
  succeeded: INTEGER,
  failed: INTEGER,
  atomicity: oneOf(['partial', 'atomic']),
  items: list(
    object({
      index: INTEGER,
      status: oneOf(['created', 'duplicate', 'failed']),
      'job?': JOB,
      'error?': MAP,
    }),
  ),
})

export const PUSH_MANY: Description = {
  id: 'pushMany',
  tag: 'jobs',
  summary: 'Enqueue many jobs, with a result for each',
  body: object({
    jobs: { ...list(MAP), minItems: 1, maxItems: 1_000 },
    'atomicity?': told('Default: `partial`.', oneOf(['partial', 'atomic'])),
    'idempotency_key?': told('The same as the header.'),
  }),
  isIdempotent: true,
  answers: { 200: MANY, 201: MANY, 207: MANY, 422: MANY },
  errors: [413],
}

export const LIST_OPERATIONS: Description = {
  id: 'listOperations',
  tag: 'admin',
  summary: 'List the operations on many jobs, newest first',
  query: ADMIN_PAGE,
  answers: { 200: object({ items: list(OPERATION), pagination: PAGINATION }) },
}

export const GET_OPERATION: Description = {
  id: 'getOperation',
  tag: 'admin',
  summary: 'Read how far an operation on many jobs is',
  answers: { 200: OPERATION },
}

export const STOP_OPERATION: Description = {
  id: 'stopOperation',
  tag: 'admin',
  summary: 'Stop an operation on many jobs',
  body: MAP,
  isBodyOptional: true,
  answers: { 200: OPERATION },
}

export const RETRY_DEAD_LETTERS: Description = {
  id: 'retryDeadLetters',
  tag: 'dead letters',
  summary: 'Run all dead letters again that match a filter',
  body: object({ filter: FILTER, ...CONFIRMED, ...LIMIT, ...ASYNC }),
  answers: BULK_ANSWERS,
  errors: [429],
}

export const PURGE_DEAD_LETTERS: Description = {
  id: 'purgeDeadLetters',
  tag: 'dead letters',
  summary: 'Delete all dead letters that match',
  description: 'The members of the body may be query parameters instead.',
  query: {
    ...{ older_than: TEXT, queue: TEXT, type: TEXT, error_type: TEXT },
    ...{ confirm: BOOLEAN, dry_run: BOOLEAN, async: BOOLEAN, limit: INTEGER },
  },
  body: object({
    'older_than?': TEXT,
    'queue?': TEXT,
    'type?': TEXT,
    'error_type?': TEXT,
    ...CONFIRMED,
    ...LIMIT,
    ...ASYNC,
  }),
  isBodyOptional: true,
  answers: BULK_ANSWERS,
  errors: [429],
}
