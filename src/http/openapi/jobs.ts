/** Of `/jobs`: PUSH, PUSH batch, INFO, CANCEL, ACTIVATE, and what a job has returned. */
import { BATCH_SCHEMA, PUSH_SCHEMA } from '../../schemas/requests/push.ts'
import { RESULTS_SCHEMA } from '../../schemas/requests/results.ts'
import type { Description } from './description.ts'
import { FAILURE, ID, JOB, jobWith, STATE } from './members.ts'
import {
  ANY,
  BOOLEAN,
  INSTANT,
  INTEGER,
  list,
  MAP,
  NUMBER,
  object,
  TEXT,
  TRUE,
  told,
} from './schema.ts'

export const PUSH: Description = {
  id: 'pushJob',
  tag: 'jobs',
  summary: 'Enqueue a job (PUSH)',
  isIdempotent: true,
  body: PUSH_SCHEMA,
  answers: {
    201: told('Committed, and confirmed by RabbitMQ.', object({ job: JOB })),
    200: told('A `unique` policy found an existing job.', object({ job: JOB, deduplicated: TRUE })),
  },
  errors: [409, 422],
}

export const PUSH_BATCH: Description = {
  id: 'pushJobs',
  tag: 'jobs',
  summary: 'Enqueue several jobs: all of them or none (PUSH batch)',
  isIdempotent: true,
  // The parser checks the jobs one by one, so that its errors name the job.
  body: {
    ...BATCH_SCHEMA,
    properties: {
      ...BATCH_SCHEMA.properties,
      jobs: { ...BATCH_SCHEMA.properties.jobs, items: PUSH_SCHEMA },
    },
  },
  answers: Object.fromEntries(
    [201, 200].map((status) => [
      status,
      object({
        jobs: list(JOB),
        count: INTEGER,
        'deduplicated?': told('The places of jobs that existed before.', list(INTEGER)),
      }),
    ]),
  ),
  errors: [409, 422],
}

export const ACTIVATE: Description = {
  id: 'activateJob',
  tag: 'jobs',
  summary: 'Make a pending job available',
  body: MAP,
  isBodyOptional: true,
  answers: { 200: object({ job: jobWith({ previous_state: STATE }) }) },
  errors: [409],
}

export const INFO: Description = {
  id: 'getJob',
  tag: 'jobs',
  summary: 'Read a job (INFO)',
  answers: {
    200: object({
      job: jobWith({
        'progress?': told('From 0 to 1.', NUMBER),
        'progress_data?': MAP,
        'progress_message?': TEXT,
      }),
      state: STATE,
    }),
  },
}

export const CANCEL: Description = {
  id: 'cancelJob',
  tag: 'jobs',
  summary: 'Cancel a job (CANCEL)',
  answers: { 200: object({ job: jobWith({ previous_state: STATE }) }) },
  errors: [409],
}

export const RESULT: Description = {
  id: 'getResult',
  tag: 'jobs',
  summary: 'Read what a job has returned, or wait for it',
  query: {
    wait: told('Wait until the job has ended.', BOOLEAN),
    timeout: told('For how many seconds at most: 30 if none is named, at most 60.', INTEGER),
  },
  answers: {
    200: told(
      'The job has ended.',
      object({
        job_id: ID,
        state: STATE,
        'completed_at?': INSTANT,
        'result_expires_at?': told(
          'With `result_ttl`; else the result goes with the job.',
          INSTANT,
        ),
        'result?': ANY,
        'error?': FAILURE,
        'payload_withheld?': TRUE,
      }),
    ),
    202: told('It has not ended yet.', object({ job_id: ID, state: STATE })),
  },
  errors: [408, 410],
}

export const RESULTS: Description = {
  id: 'getResults',
  tag: 'jobs',
  summary: 'Read what several jobs have returned',
  body: RESULTS_SCHEMA,
  answers: {
    200: object({
      results: told(
        'By id: `{state, result}`, null where there is no such job, or its result is not kept.',
        MAP,
      ),
    }),
  },
  errors: [413],
}
