/** Of `/workflows`. */
import { WORKFLOW_STATES, WORKFLOW_TYPES } from '../../job/workflow/workflow.ts'
import { PUSH_SCHEMA } from '../../schemas/requests/push.ts'
import { GRAPH_SCHEMA, WORKFLOW_SCHEMA } from '../../schemas/requests/workflow.ts'
import type { Description } from './description.ts'
import { FAILURE, ID, PAGE, PAGINATION, STATE } from './members.ts'
import {
  ANY,
  entity,
  INSTANT,
  INTEGER,
  list,
  MAP,
  NUMBER,
  nullable,
  object,
  oneOf,
  type Schema,
  TEXT,
  told,
} from './schema.ts'

const TYPE = oneOf(WORKFLOW_TYPES)
const WORKFLOW_STATE: Schema = { ...oneOf(WORKFLOW_STATES), title: 'WorkflowState' }

const SUMMARY = {
  id: ID,
  'name?': TEXT,
  type: TYPE,
  state: WORKFLOW_STATE,
  steps_total: INTEGER,
  steps_completed: INTEGER,
  jobs_total: told('The same as `steps_total`.', INTEGER),
  jobs_completed: told('The same as `steps_completed`.', INTEGER),
}

const TIMES = {
  created_at: INSTANT,
  'started_at?': INSTANT,
  'completed_at?': told('Also of a failure.', INSTANT),
  'cancelled_at?': INSTANT,
}

const STEP = entity('WorkflowStep', {
  id: TEXT,
  type: TEXT,
  state: STATE,
  job_id: told('Null until the job is made.', nullable(TEXT)),
  'started_at?': INSTANT,
  'completed_at?': INSTANT,
  'cancelled_at?': INSTANT,
  depends_on: list(TEXT),
  'result?': ANY,
  'error?': FAILURE,
  'payload_withheld?': told('The key may not read results and messages.', { const: true }),
})

const WORKFLOW = entity('Workflow', {
  ...SUMMARY,
  ...TIMES,
  steps: list(STEP),
  'callbacks?': list(STEP),
  'failed_step_id?': TEXT,
  'failed_step_index?': INTEGER,
  'failed_job_ids?': list(TEXT),
  'errors?': list(object({ job_id: nullable(TEXT), code: TEXT, message: TEXT, attempt: INTEGER })),
  metadata: object({
    ...TIMES,
    job_count: INTEGER,
    completed_count: INTEGER,
    failed_count: INTEGER,
  }),
})

/** Beside `workflow`. */
const IDENTITY = { id: ID, 'name?': TEXT, type: TYPE, state: WORKFLOW_STATE }

const { steps } = GRAPH_SCHEMA.properties

/** A job, or a workflow in it; the planner checks them. */
const STEP_REQUEST: Schema = {
  ...steps.items,
  title: 'WorkflowStepRequest',
  required: [],
  properties: { ...PUSH_SCHEMA.properties, ...steps.items.properties },
}

export const CREATE_WORKFLOW: Description = {
  id: 'createWorkflow',
  tag: 'workflows',
  summary: 'Start a workflow',
  isIdempotent: true,
  body: {
    ...WORKFLOW_SCHEMA,
    properties: {
      ...WORKFLOW_SCHEMA.properties,
      type: oneOf(['chain', 'group', 'batch']),
      steps: { ...steps, items: STEP_REQUEST },
      jobs: list(STEP_REQUEST),
      callbacks: object({
        'on_complete?': STEP_REQUEST,
        'on_success?': STEP_REQUEST,
        'on_failure?': STEP_REQUEST,
      }),
    },
  },
  answers: { 201: object({ workflow: WORKFLOW, ...IDENTITY }) },
  errors: [409, 422],
}

export const LIST_WORKFLOWS: Description = {
  id: 'listWorkflows',
  tag: 'workflows',
  summary: 'List the workflows, without their steps',
  query: { ...PAGE, state: told('Only in this state.', oneOf(WORKFLOW_STATES)) },
  answers: {
    200: object({
      workflows: list(entity('WorkflowSummary', { ...SUMMARY, ...TIMES })),
      pagination: PAGINATION,
    }),
  },
}

export const GET_WORKFLOW: Description = {
  id: 'getWorkflow',
  tag: 'workflows',
  summary: 'Read a workflow with its steps',
  answers: { 200: object({ workflow: WORKFLOW, ...IDENTITY }) },
}

export const WORKFLOW_PROGRESS: Description = {
  id: 'getWorkflowProgress',
  tag: 'workflows',
  summary: 'Read how far a workflow and its steps are',
  answers: {
    200: object({
      workflow_id: ID,
      id: ID,
      type: TYPE,
      progress: told(
        'From 0 to 1: the mean of the steps; of a batch, the share of completed jobs.',
        NUMBER,
      ),
      updated_at: INSTANT,
      steps: list(
        object({
          id: TEXT,
          job_id: told('Null until the job is made.', nullable(TEXT)),
          type: TEXT,
          state: STATE,
          progress: told('From 0 to 1; null without a report.', nullable(NUMBER)),
          'data?': told('Of the first megabyte of all of it.', MAP),
        }),
      ),
    }),
  },
}

export const CANCEL_WORKFLOW: Description = {
  id: 'cancelWorkflow',
  tag: 'workflows',
  summary: 'Cancel all steps that have not ended',
  answers: {
    200: object({
      workflow: object({
        id: ID,
        'name?': TEXT,
        state: WORKFLOW_STATE,
        cancelled_at: INSTANT,
        steps_cancelled: INTEGER,
        steps_already_completed: INTEGER,
      }),
      ...IDENTITY,
    }),
  },
  errors: [409],
}
