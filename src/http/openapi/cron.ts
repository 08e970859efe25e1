/** Of `/cron`. */
import { CRON_SCHEMA, TRIGGER_SCHEMA } from '../../schemas/requests/cron.ts'
import { PUSH_SCHEMA } from '../../schemas/requests/push.ts'
import type { Description } from './description.ts'
import { ID, JOB, PAGE, PAGINATION } from './members.ts'
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
  TEXT,
  TRUE,
  told,
} from './schema.ts'

/** Options that were pushed at the top level stand beside these members. */
const ENTRY = entity('CronJob', {
  name: TEXT,
  cron: TEXT,
  expression: told('The same as `cron`.'),
  timezone: TEXT,
  'description?': TEXT,
  type: TEXT,
  args: list(ANY),
  'schema?': TEXT,
  'meta?': MAP,
  'options?': MAP,
  overlap_policy: oneOf(['skip', 'allow', 'cancel_previous', 'enqueue']),
  status: oneOf(['active', 'disabled']),
  enabled: BOOLEAN,
  'last_run_at?': INSTANT,
  'next_run_at?': told('Null while it is disabled.', {
    type: ['string', 'null'],
    format: 'date-time',
  }),
  run_count: INTEGER,
  'last_job_id?': TEXT,
  'queued_ticks?': told('Times that wait for the end of an earlier job.', INTEGER),
  created_at: INSTANT,
})

const ONE = { cron_job: ENTRY, cron: told('The same as `cron_job`.', ENTRY) }

const REGISTERED = object({
  ...ONE,
  'warnings?': list(
    object({
      code: oneOf(['repeated_times', 'skipped_times', 'expired_jobs']),
      message: TEXT,
      at: INSTANT,
    }),
  ),
})

export const LIST_CRON: Description = {
  id: 'listCronJobs',
  tag: 'cron',
  summary: 'List the recurring jobs',
  query: PAGE,
  answers: {
    200: object({
      cron_jobs: list(ENTRY),
      crons: told('The same as `cron_jobs`.', list(ENTRY)),
      pagination: PAGINATION,
    }),
  },
}

const { id: _id, specversion: _specversion, ...TEMPLATE } = PUSH_SCHEMA.properties

const BODY = { ...CRON_SCHEMA, properties: { ...TEMPLATE, ...CRON_SCHEMA.properties } }
const { required: _required, ...OPTIONAL } = BODY
const CHANGE = { ...OPTIONAL, title: 'CronChange' }

export const REGISTER_CRON: Description = {
  id: 'registerCronJob',
  tag: 'cron',
  summary: 'Register a recurring job',
  isIdempotent: true,
  query: { replace: told('Replace an entry of the same name.', BOOLEAN) },
  // The parser checks the members of the job like a PUSH.
  body: BODY,
  answers: { 201: REGISTERED, 200: told('It has replaced an entry.', REGISTERED) },
  errors: [409, 422],
}

export const PUT_CRON: Description = {
  id: 'putCronJob',
  tag: 'cron',
  summary: 'Register or replace a recurring job',
  isIdempotent: true,
  body: CHANGE,
  answers: { 201: REGISTERED, 200: told('It has replaced an entry.', REGISTERED) },
  errors: [422],
}

export const CHANGE_CRON: Description = {
  id: 'changeCronJob',
  tag: 'cron',
  summary: 'Change members of a recurring job',
  body: CHANGE,
  answers: { 200: REGISTERED },
  errors: [422],
}

export const PAUSE_CRON: Description = {
  id: 'pauseCronJob',
  tag: 'cron',
  summary: 'Disable a recurring job',
  body: MAP,
  isBodyOptional: true,
  answers: { 200: REGISTERED },
}

export const RESUME_CRON: Description = {
  id: 'resumeCronJob',
  tag: 'cron',
  summary: 'Enable a recurring job',
  body: MAP,
  isBodyOptional: true,
  answers: { 200: REGISTERED },
}

export const TRIGGER_CRON: Description = {
  id: 'triggerCronJob',
  tag: 'cron',
  summary: 'Run a recurring job now',
  isIdempotent: true,
  body: TRIGGER_SCHEMA,
  isBodyOptional: true,
  answers: { 201: object({ job_id: ID, cron_name: TEXT, job: JOB }) },
  errors: [409, 422],
}

const RUN = entity('CronRun', {
  'job_id?': ID,
  'state?': told('Of the job; null: unknown.', { type: ['string', 'null'] }),
  scheduled_at: INSTANT,
  'started_at?': INSTANT,
  'completed_at?': INSTANT,
  'manual?': told('Somebody asked for it.', TRUE),
  'skipped?': told('The time made no job.', TRUE),
  'reason?': told('Why it made none.'),
})

export const LIST_CRON_RUNS: Description = {
  id: 'listCronRuns',
  tag: 'cron',
  summary: 'List the newest runs of a recurring job',
  query: PAGE,
  answers: { 200: object({ executions: list(RUN), pagination: PAGINATION }) },
}

export const LIST_CRON_TIMES: Description = {
  id: 'listCronTimes',
  tag: 'cron',
  summary: 'Ask when an expression comes next',
  query: {
    expression: told('As in an entry.'),
    timezone: told('Default: `UTC`.'),
    limit: told('How many times; default 5, at most 20.', INTEGER),
  },
  answers: { 200: object({ expression: TEXT, timezone: TEXT, times: list(INSTANT) }) },
}

export const GET_CRON: Description = {
  id: 'getCronJob',
  tag: 'cron',
  summary: 'Read a recurring job',
  answers: { 200: object(ONE) },
}

export const DELETE_CRON: Description = {
  id: 'deleteCronJob',
  tag: 'cron',
  summary: 'Delete a recurring job',
  answers: { 200: object({ deleted: TRUE, name: TEXT, cron: object({ name: TEXT }) }) },
}
