/** Of `/jobs/:id/progress` and `/jobs/:id/checkpoint`. */
import { CHECKPOINT_SCHEMA, PROGRESS_SCHEMA } from '../../schemas/requests/progress.ts'
import type { Description } from './description.ts'
import { ID, STATE } from './members.ts'
import { ofPath } from './of-path.ts'
import {
  ANY,
  BOOLEAN,
  entity,
  INSTANT,
  INTEGER,
  MAP,
  NUMBER,
  nullable,
  object,
  TEXT,
  told,
} from './schema.ts'

const PROGRESS = entity('Progress', {
  job_id: ID,
  state: STATE,
  attempt: INTEGER,
  progress: told('From 0 to 1; null without a report.', nullable(NUMBER)),
  'message?': TEXT,
  'updated_at?': INSTANT,
  data: nullable(MAP),
})

export const REPORT_PROGRESS: Description = {
  id: 'reportProgress',
  tag: 'workers',
  summary: 'Report how far a running job is',
  body: PROGRESS_SCHEMA,
  answers: { 200: PROGRESS },
  errors: [404],
}

export const PUT_PROGRESS: Description = {
  ...REPORT_PROGRESS,
  id: 'putProgress',
  summary: 'Report how far the job in the path is',
  body: ofPath(PROGRESS_SCHEMA),
}

export const READ_PROGRESS: Description = {
  id: 'getProgress',
  tag: 'jobs',
  summary: 'Read how far a job is',
  answers: { 200: PROGRESS },
}

const FACTS = { job_id: ID, sequence: INTEGER, created_at: INSTANT }
const WHOLE = { ...FACTS, state: ANY }

export const PUT_CHECKPOINT: Description = {
  id: 'putCheckpoint',
  tag: 'workers',
  summary: 'Save where a job would go on',
  body: ofPath(CHECKPOINT_SCHEMA),
  answers: { 200: object({ ...FACTS, checkpoint: object(FACTS) }) },
  errors: [409],
}

export const POST_CHECKPOINT: Description = {
  ...PUT_CHECKPOINT,
  id: 'postCheckpoint',
  summary: 'The same as PUT',
}

export const READ_CHECKPOINT: Description = {
  id: 'getCheckpoint',
  tag: 'workers',
  summary: 'Read where a job would go on',
  answers: { 200: object({ ...WHOLE, checkpoint: object(WHOLE) }) },
}

export const DELETE_CHECKPOINT: Description = {
  id: 'deleteCheckpoint',
  tag: 'workers',
  summary: 'Forget where a job would go on',
  answers: { 200: object({ deleted: BOOLEAN, job_id: ID }) },
}
