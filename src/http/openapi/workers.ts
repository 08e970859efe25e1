/** Of `/workers`: FETCH, ACK, NACK, many of these two at once, and heartbeats. */
import {
  ACK_SCHEMA,
  FETCH_SCHEMA,
  HEARTBEAT_SCHEMA,
  NACK_SCHEMA,
  SETTLE_ITEM_SCHEMA,
  SETTLE_SCHEMA,
} from '../../schemas/requests/workers.ts'
import type { Description } from './description.ts'
import { ERROR_MEMBERS } from './errors.ts'
import { CHECKPOINT_MEMBERS, ID, JOB, jobWith, STATE } from './members.ts'
import { ofPath } from './of-path.ts'
import { entity, INSTANT, INTEGER, list, object, oneOf, TEXT, TRUE, told } from './schema.ts'

const ACKED = entity('Ack', {
  acknowledged: TRUE,
  id: ID,
  job_id: ID,
  state: STATE,
  completed_at: INSTANT,
  job: JOB,
})

const NACKED = {
  job_id: ID,
  id: ID,
  state: STATE,
  attempt: INTEGER,
  max_attempts: INTEGER,
  'next_attempt_at?': INSTANT,
  'retry_delay_ms?': INTEGER,
  'discarded_at?': INSTANT,
  'completed_at?': INSTANT,
}

export const FETCH: Description = {
  id: 'fetchJobs',
  tag: 'workers',
  summary: 'Take jobs to run (FETCH)',
  body: FETCH_SCHEMA,
  answers: {
    200: object({
      jobs: list(jobWith(CHECKPOINT_MEMBERS)),
      'directive?': oneOf(['quiet', 'terminate']),
    }),
  },
}

export const ACK: Description = {
  id: 'ackJob',
  tag: 'workers',
  summary: 'Report that a job has succeeded (ACK)',
  body: ACK_SCHEMA,
  answers: { 200: ACKED },
  errors: [404, 409],
}

export const ACK_OF_PATH: Description = {
  ...ACK,
  id: 'ackJobById',
  summary: 'ACK of the job in the path',
  body: ofPath(ACK_SCHEMA),
  isBodyOptional: true,
}

export const NACK: Description = {
  id: 'nackJob',
  tag: 'workers',
  summary: 'Report that a job has failed, or give it back (NACK)',
  body: NACK_SCHEMA,
  answers: { 200: entity('Nack', NACKED) },
  errors: [404, 409],
}

export const NACK_OF_PATH: Description = {
  ...NACK,
  id: 'nackJobById',
  summary: 'NACK of the job in the path',
  body: ofPath(NACK_SCHEMA),
  answers: { 200: object({ ...NACKED, job: JOB }) },
}

const SETTLED = {
  ...SETTLE_SCHEMA.properties.items,
  items: {
    ...SETTLE_ITEM_SCHEMA,
    properties: {
      ...NACK_SCHEMA.properties,
      ...ACK_SCHEMA.properties,
      ...SETTLE_ITEM_SCHEMA.properties,
    },
  },
}

export const SETTLE: Description = {
  id: 'settleJobs',
  tag: 'workers',
  summary: 'ACKs and NACKs of many jobs at once',
  description:
    'Each item has the members of an ACK or a NACK beside its `action`, and is answered as its own request would be.',
  // The parsers of ACK and NACK check the items one by one.
  body: { ...SETTLE_SCHEMA, properties: { ...SETTLE_SCHEMA.properties, items: SETTLED } },
  answers: {
    200: object({
      items: told(
        'In the order of the request.',
        list(
          object({
            status: told('That of its own request.', INTEGER),
            'job_id?': TEXT,
            'id?': ID,
            'acknowledged?': TRUE,
            'state?': STATE,
            'attempt?': INTEGER,
            'max_attempts?': INTEGER,
            'next_attempt_at?': INSTANT,
            'retry_delay_ms?': INTEGER,
            'completed_at?': INSTANT,
            'discarded_at?': INSTANT,
            'retry_after_seconds?': told('With 429 and 503.', INTEGER),
            'error?': ERROR_MEMBERS,
          }),
        ),
      ),
    }),
  },
}

const BEATEN = {
  state: oneOf(['running', 'quiet', 'terminate']),
  directive: told('The same as `state`.', oneOf(['running', 'quiet', 'terminate'])),
  jobs_extended: told('Jobs whose leases were extended.', list(TEXT)),
  cancelled_jobs: told('Jobs to stop.', list(TEXT)),
  server_time: INSTANT,
  heartbeat_interval_ms: told('How often to send heartbeats while jobs run.', INTEGER),
}

export const HEARTBEAT: Description = {
  id: 'sendHeartbeat',
  tag: 'workers',
  summary: 'Extend leases, and hear of directives and cancelled jobs',
  body: HEARTBEAT_SCHEMA,
  answers: { 200: entity('Heartbeat', BEATEN) },
  errors: [409],
}

export const BEAT: Description = {
  ...HEARTBEAT,
  id: 'sendBeat',
  summary: "A heartbeat under OJS's short name",
  answers: { 200: object({ acknowledged: TRUE, ...BEATEN }) },
}

const WORKER_HEALTH_ANSWER = entity('WorkerHealth', {
  worker_id: TEXT,
  state: oneOf(['running', 'draining', 'shutting_down', 'stale']),
  active_jobs: INTEGER,
  last_heartbeat_at: told('Of a worker that sends none: its last FETCH.', INSTANT),
})

export const WORKER_HEALTH: Description = {
  id: 'getWorkerHealth',
  tag: 'workers',
  summary: 'Ask whether a worker can be counted on',
  answers: {
    200: WORKER_HEALTH_ANSWER,
    503: told('Nothing was heard of it for 30 s.', WORKER_HEALTH_ANSWER),
  },
}
