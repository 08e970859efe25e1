/** Of `/dead-letter` and `/admin/dead-letter`. */
import type { Description } from './description.ts'
import { FILTERS, ITEM } from './job-search.ts'
import { ADMIN_PAGE, CURSOR, ID, JOB, jobWith, PAGE, PAGINATION } from './members.ts'
import { INSTANT, INTEGER, list, object, TRUE, told } from './schema.ts'
import { OVERRIDE } from './steer.ts'

const SINCE = '`since` and `until` are about when it was discarded.'

export const LIST_DEAD_LETTERS: Description = {
  id: 'listDeadLetters',
  tag: 'dead letters',
  summary: 'List the jobs that failed for good',
  description: SINCE,
  query: { ...FILTERS, ...PAGE, ...CURSOR },
  answers: { 200: object({ jobs: list(JOB), pagination: PAGINATION }) },
}

export const LIST_ADMIN_DEAD_LETTERS: Description = {
  id: 'listAdminDeadLetters',
  tag: 'admin',
  summary: 'List the jobs that failed for good; small items',
  description: SINCE,
  query: { ...FILTERS, ...ADMIN_PAGE },
  answers: { 200: object({ items: list(ITEM), pagination: PAGINATION }) },
}

export const GET_DEAD_LETTER: Description = {
  id: 'getDeadLetter',
  tag: 'dead letters',
  summary: 'Read a job that failed for good',
  answers: { 200: object({ job: JOB }) },
}

const NUMBERS = { type: 'object', additionalProperties: INTEGER }

export const DEAD_LETTER_STATS: Description = {
  id: 'deadLetterStats',
  tag: 'dead letters',
  summary: 'Count the dead letters by queue, type and error',
  query: { queue: FILTERS.queue },
  answers: {
    200: object({
      total: INTEGER,
      by_queue: NUMBERS,
      by_type: NUMBERS,
      by_error_type: NUMBERS,
      'oldest_at?': INSTANT,
      'newest_at?': INSTANT,
      'stats_are_partial?': told('Only the newest were looked at, for type and error.', TRUE),
      'searched?': INTEGER,
    }),
  },
}

export const RETRY_DEAD_LETTER: Description = {
  id: 'retryDeadLetter',
  tag: 'dead letters',
  summary: 'Run a dead letter again, unchanged or as a copy with changes',
  body: OVERRIDE,
  isBodyOptional: true,
  answers: { 200: object({ job: jobWith({ re_enqueued_at: INSTANT }) }) },
  errors: [409, 422],
}

export const DELETE_DEAD_LETTER: Description = {
  id: 'deleteDeadLetter',
  tag: 'dead letters',
  summary: 'Remove a dead letter and its job for good',
  answers: { 200: object({ deleted: TRUE, job_id: ID }) },
}

export const DELETE_ADMIN_DEAD_LETTER: Description = {
  ...DELETE_DEAD_LETTER,
  id: 'deleteAdminDeadLetter',
  answers: { 204: null },
}
