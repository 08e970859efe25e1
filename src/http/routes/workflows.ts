/** `/workflows`: graphs and chains of jobs are started, listed, read and cancelled. */
import type { Request } from 'express'
import { echoed, invalidField } from '../../errors.ts'
import {
  cancellationDocument,
  workflowDocument,
  workflowSummary,
} from '../../job/workflow/document.ts'
import { workflowProgress } from '../../job/workflow/progress.ts'
import type { WorkflowHead, WorkflowRow } from '../../job/workflow/row.ts'
import { WORKFLOW_STATES, type WorkflowState } from '../../job/workflow/workflow.ts'
import {
  cancelWorkflow,
  createWorkflow,
  getWorkflow,
  listWorkflows,
  readWorkflowProgress,
} from '../../operations/workflows/workflows.ts'
import { LIST_LIMITS } from '../../schemas/json/json-text.ts'
import { readJson } from '../message/body.ts'
import { pageOf, pagination } from '../message/page.ts'
import { filterText } from '../message/query.ts'
import { answer, replayHeader } from '../message/respond.ts'
import {
  CANCEL_WORKFLOW,
  CREATE_WORKFLOW,
  GET_WORKFLOW,
  LIST_WORKFLOWS,
  WORKFLOW_PROGRESS,
} from '../openapi/workflows.ts'
import { type Endpoint, pathParameter } from '../route.ts'
import type { Door } from './route-deps.ts'

const WORKFLOWS = '/ojs/v1/workflows'

/** Creates, reads and cancels workflows (seed 001 §14); the list is an addition. */
export function workflowRoutes({ deps }: Door): Endpoint[] {
  return [
    {
      method: 'POST',
      path: WORKFLOWS,
      about: CREATE_WORKFLOW,
      access: ['producer'],
      async handle(request, response) {
        const { maxBodyBytes } = deps.settings
        const body = await readJson(request, response, maxBodyBytes, { limits: LIST_LIMITS })
        const { workflow, isReplay } = await createWorkflow(deps, body, request.context)
        const headers = ['Location', `${WORKFLOWS}/${workflow.id}`, ...replayHeader(isReplay)]
        answer(response, 201, workflowBody(workflow), ...headers)
      },
    },
    {
      method: 'GET',
      path: WORKFLOWS,
      about: LIST_WORKFLOWS,
      access: ['operator'],
      async handle(request, response) {
        const page = pageOf(request)
        const { workflows, total } = await listWorkflows(deps, { state: stateOf(request), ...page })
        const list = { workflows: workflows.map(workflowSummary) }
        answer(response, 200, JSON.stringify({ ...list, pagination: pagination(page, total) }))
      },
    },
    {
      method: 'GET',
      path: `${WORKFLOWS}/:id`,
      about: GET_WORKFLOW,
      access: ['producer', 'operator'],
      async handle(request, response) {
        const workflow = await getWorkflow(deps, pathParameter(request, 'id'))
        answer(response, 200, workflowBody(workflow))
      },
    },
    {
      method: 'GET',
      path: `${WORKFLOWS}/:id/progress`,
      about: WORKFLOW_PROGRESS,
      access: ['producer', 'operator'],
      async handle(request, response) {
        const id = pathParameter(request, 'id')
        const { workflow, notes } = await readWorkflowProgress(deps, id)
        const headers = ['Cache-Control', 'no-cache']
        answer(response, 200, workflowProgress(workflow, notes), ...headers)
      },
    },
    {
      method: 'DELETE',
      path: `${WORKFLOWS}/:id`,
      about: CANCEL_WORKFLOW,
      access: ['producer', 'operator'],
      async handle(request, response) {
        const id = pathParameter(request, 'id')
        const { workflow, stepsCancelled } = await cancelWorkflow(deps, id, request.context)
        const document = cancellationDocument(workflow, stepsCancelled)
        answer(response, 200, JSON.stringify({ workflow: document, ...identity(workflow) }))
      },
    },
  ]
}

function workflowBody(workflow: WorkflowRow): string {
  const beside = JSON.stringify(identity(workflow)).slice(1)
  return `{"workflow":${workflowDocument(workflow)},${beside}`
}

/** Members that clients read beside `workflow`, as `state` beside the job of INFO; an addition. */
function identity({ id, name, type, state }: WorkflowHead): object {
  return { id, ...(name !== null && { name }), type, state }
}

/** The filter of the list. Throws 400 for an unknown state. */
function stateOf(request: Request): WorkflowState | null {
  const text = filterText(request, 'state')
  const state = WORKFLOW_STATES.find((candidate) => candidate === text) ?? null
  if (state !== null || text === null) return state
  throw invalidField('state', "The 'state' parameter must be a state of a workflow.", {
    expected: [...WORKFLOW_STATES],
    received: echoed(text),
  })
}
