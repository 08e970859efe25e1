/** Of `/cron`. */
import { CRON_SCHEMA } from '../../schemas/requests/cron.ts'
import { PUSH_SCHEMA } from '../../schemas/requests/push.ts'
import type { Description } from './description.ts'
import { PAGE, PAGINATION } from './members.ts'
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
  'next_run_at?': INSTANT,
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

export const REGISTER_CRON: Description = {
  id: 'registerCronJob',
  tag: 'cron',
  summary: 'Register a recurring job',
  isIdempotent: true,
  query: { replace: told('Replace an entry of the same name.', BOOLEAN) },
  // The parser checks the members of the job like a PUSH.
  body: { ...CRON_SCHEMA, properties: { ...TEMPLATE, ...CRON_SCHEMA.properties } },
  answers: { 201: REGISTERED, 200: told('It has replaced an entry.', REGISTERED) },
  errors: [409, 422],
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
