import type { GraphStep, Plan, PlannedJob, WorkflowRequest } from './workflow.ts'
import { ancestors, runningOrder } from './workflow-graph.ts'
import { kindOf } from './workflow-kinds.ts'
import { stepRequest } from './workflow-options.ts'
import { planTree } from './workflow-tree.ts'

/**
 * Both dialects of a workflow as one plan (ojs-digest §8.1). Throws `OjsError`: 400 for what cannot
 * be run, 422 for a kind that is not offered. The jobs themselves are not checked here.
 *
 * `stepsOf`: the steps of the seed's form, checked for their own members.
 */
export function planWorkflow(
  request: WorkflowRequest,
  stepsOf: (request: WorkflowRequest) => readonly GraphStep[],
): Plan {
  const type = kindOf(request.type, 'type')
  return type === 'dag' ? planGraph(request, stepsOf(request)) : planTree(type, request)
}

/** Seed 001 §14.1. Steps keep the places of the request, whatever order they can run in. */
function planGraph({ options }: WorkflowRequest, steps: readonly GraphStep[]): Plan {
  const vertices = steps.map(({ id, depends_on }) => ({ id, dependsOn: [...new Set(depends_on)] }))
  const before = ancestors(vertices, runningOrder(vertices))
  const places = new Map(vertices.map(({ id }, place) => [id, place]))
  const nodes = steps.map((step, place): PlannedJob => {
    const dependsOn = vertices[place]?.dependsOn ?? []
    return {
      kind: 'job',
      id: step.id,
      request: stepRequest(step, { ...options }),
      path: `steps[${place}]`,
      needs: dependsOn.map((id) => places.get(id) ?? 0),
      rule: 'completed',
      isCallback: false,
      dependsOn,
      inputs: { steps: before[place] ?? [] },
    }
  })
  const all = nodes.map((_, place) => place)
  return { type: 'dag', nodes: [...nodes, { kind: 'join', needs: all, rule: 'all' }] }
}
