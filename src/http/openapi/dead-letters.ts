/** Of `/dead-letter`. */
import type { Description } from './description.ts'
import { ID, JOB, jobWith, ONE_QUEUE, PAGE, PAGINATION } from './members.ts'
import { INSTANT, list, MAP, object, TRUE } from './schema.ts'

export const LIST_DEAD_LETTERS: Description = {
  id: 'listDeadLetters',
  tag: 'dead letters',
  summary: 'List the jobs that failed for good',
  query: { ...PAGE, ...ONE_QUEUE },
  answers: { 200: object({ jobs: list(JOB), pagination: PAGINATION }) },
}

export const RETRY_DEAD_LETTER: Description = {
  id: 'retryDeadLetter',
  tag: 'dead letters',
  summary: 'Run a dead letter again, unchanged',
  body: MAP,
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
