/** The schema of `POST /workflows`; the planner checks the steps. */
import { MAX_STEPS } from '../../job/workflow/kinds.ts'
import type { GraphStep, WorkflowRequest } from '../../job/workflow/workflow.ts'
import { PUSH_SCHEMA } from './push.ts'
import { id } from './shared-members.ts'
import { parser } from './validator.ts'

const { options, id: chosenId } = PUSH_SCHEMA.properties

/**
 * The members of `POST /workflows` on which all dialects agree. The planner checks the steps, and each job is
 * checked like a PUSH.
 */
export const WORKFLOW_SCHEMA = {
  title: 'WorkflowRequest',
  type: 'object',
  properties: { id: chosenId, name: { ...id, type: ['string', 'null'] }, options },
} as const

/** Seed 001 §14.1. A missing `depends_on` is an empty one (OJS workflows). */
export const GRAPH_SCHEMA = {
  type: 'object',
  required: ['name', 'steps'],
  properties: {
    name: id,
    steps: {
      type: 'array',
      minItems: 1,
      maxItems: MAX_STEPS,
      items: {
        type: 'object',
        required: ['id'],
        properties: {
          id,
          depends_on: { type: ['array', 'null'], items: { type: 'string' } },
        },
      },
    },
  },
} as const

export const parseWorkflow = parser<WorkflowRequest>(WORKFLOW_SCHEMA)

const parseGraph = parser<{ steps: GraphStep[] }>(GRAPH_SCHEMA)

/** The steps of a workflow in the seed's form. */
export function parseGraphSteps(request: WorkflowRequest): GraphStep[] {
  return parseGraph(request).steps
}
