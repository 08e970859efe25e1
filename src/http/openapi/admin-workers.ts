/** Of `/admin/workers`. */
import { DIRECTIVE_SCHEMA } from '../../schemas/requests/admin.ts'
import type { Description } from './description.ts'
import { ADMIN_PAGE, ID, PAGINATION } from './members.ts'
import { WORKER_SUMMARY } from './queues.ts'
import { entity, INSTANT, INTEGER, list, MAP, object, oneOf, TEXT, TRUE, told } from './schema.ts'

const DIRECTIVE = oneOf(['running', 'quiet', 'terminate'])
const WORKER_STATE = oneOf(['running', 'quiet', 'terminate', 'stale'])

/** What a worker never told is absent. */
const MEMBERS = {
  id: TEXT,
  worker_id: told('The same as `id`.'),
  state: WORKER_STATE,
  directive: DIRECTIVE,
  'hostname?': TEXT,
  'pid?': INTEGER,
  queues: list(TEXT),
  'concurrency?': INTEGER,
  labels: list(TEXT),
  'version?': TEXT,
  active_jobs: INTEGER,
  active_job_ids: told('The first hundred.', list(TEXT)),
  started_at: INSTANT,
  last_heartbeat_at: INSTANT,
  last_heartbeat: told('The same as `last_heartbeat_at`.', INSTANT),
  last_seen_at: INSTANT,
  metadata: MAP,
}

const WORKER = entity('Worker', MEMBERS)

export const LIST_WORKERS: Description = {
  id: 'listWorkers',
  tag: 'admin',
  summary: 'List the workers',
  query: ADMIN_PAGE,
  answers: {
    200: object({ items: list(WORKER), summary: WORKER_SUMMARY, pagination: PAGINATION }),
  },
}

export const GET_WORKER: Description = {
  id: 'getWorker',
  tag: 'admin',
  summary: 'Read a worker with its active jobs',
  answers: {
    200: entity('WorkerDetail', {
      ...MEMBERS,
      jobs: list(
        object({
          id: ID,
          type: TEXT,
          queue: TEXT,
          attempt: INTEGER,
          'started_at?': INSTANT,
          timeout_ms: INTEGER,
        }),
      ),
    }),
  },
}

/** With `*` in place of the id: all workers, and the answer is their number. */
const DIRECTED = {
  anyOf: [
    object({ worker: WORKER, id: TEXT, state: WORKER_STATE, directive: DIRECTIVE }),
    object({ workers: INTEGER }),
  ],
  description: 'With `*` in place of the id: all workers, and how many they are.',
}

export const QUIET: Description = {
  id: 'quietWorker',
  tag: 'admin',
  summary: 'Give a worker no more jobs',
  body: MAP,
  isBodyOptional: true,
  answers: { 200: DIRECTED },
  errors: [409],
}

export const TERMINATE: Description = {
  ...QUIET,
  id: 'terminateWorker',
  summary: 'Give a worker no more jobs, and tell it to end',
}

export const DIRECT_ALL: Description = {
  id: 'directWorkers',
  tag: 'admin',
  summary: 'Give all workers a directive',
  body: DIRECTIVE_SCHEMA,
  answers: { 200: object({ workers: INTEGER }) },
}

export const DEREGISTER: Description = {
  id: 'deregisterWorker',
  tag: 'admin',
  summary: 'Take a stale worker off the list; its jobs go back',
  answers: {
    200: object({ deregistered: TRUE, id: TEXT, jobs_requeued: INTEGER, jobs_discarded: INTEGER }),
  },
  errors: [409],
}
