import { v7 } from 'uuid'
import type { PushRequest } from '../../../src/job/request.ts'
import { planWorkflow } from '../../../src/job/workflow/plan.ts'
import type { GraphStep, WorkflowRequest } from '../../../src/job/workflow/workflow.ts'
import type { CheckedNode, NewWorkflow } from '../../../src/ledger/workflows.ts'

/** A workflow as `operations/workflows/workflows.ts` would make it; its requests count as validated. */
export function newWorkflow(
  request: WorkflowRequest,
  given: Partial<NewWorkflow> = {},
): NewWorkflow {
  const { type, nodes } = planWorkflow(request, ({ steps }) => steps as GraphStep[])
  return {
    id: v7(),
    name: request.name ?? null,
    type,
    settings: { timeoutMs: 30_000, prefix: '' },
    nodes: nodes.map(
      (node): CheckedNode =>
        node.kind === 'join' ? node : { ...node, push: node.request as unknown as PushRequest },
    ),
    ...given,
  }
}

/** A graph of steps, given by what each depends on; the type of every job is the id of its step. */
export function newGraph(
  steps: Readonly<Record<string, readonly string[]>>,
  options: object = {},
): NewWorkflow {
  const list = Object.entries(steps).map(([id, depends_on]) => ({
    id,
    type: id,
    args: [],
    depends_on,
    options,
  }))
  return newWorkflow({ name: 'graph', steps: list })
}
