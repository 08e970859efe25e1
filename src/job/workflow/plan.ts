/** Plans a workflow of either dialect, as nodes that the ledger runs. */
import { refuseCallbacks } from '../members.ts'
import { ancestors, graphOf } from './graph.ts'
import { kindOf, refuseLeftOut } from './kinds.ts'
import { stepRequest } from './options.ts'
import { Repetition } from './size.ts'
import { planTree } from './tree.ts'
import type { GraphStep, Plan, PlannedJob, WorkflowRequest } from './workflow.ts'

/**
 * Plans a workflow of either dialect (OJS workflows). Throws `OjsError`: 400 for a workflow that cannot be
 * run, 413 for one that repeats too much, 422 for a type that is not supported. Does not check the jobs.
 *
 * `stepsOf` returns the steps of the seed's form, with their own members checked.
 */
export function planWorkflow(
  request: WorkflowRequest,
  stepsOf: (request: WorkflowRequest) => readonly GraphStep[],
): Plan {
  const type = kindOf(request.type, 'type')
  if (type !== 'dag') return planTree(type, request)
  refuseLeftOut(type, request)
  return planGraph(request, stepsOf(request))
}

/** Plans the seed's form (seed 001 §14.1). Nodes keep the order of the request, not a running order. */
function planGraph({ options }: WorkflowRequest, steps: readonly GraphStep[]): Plan {
  const vertices = steps.map(({ id, depends_on }) => ({ id, dependsOn: [...new Set(depends_on)] }))
  const graph = graphOf(vertices)
  const before = ancestors(graph)
  const defaults = { ...options }
  const repetition = new Repetition()
  const nodes = steps.map((step, place): PlannedJob => {
    const path = `steps[${place}]`
    refuseCallbacks(step, path)
    repetition.take(defaults, path)
    return {
      kind: 'job',
      id: step.id,
      request: stepRequest(step, defaults),
      path,
      needs: graph.needs[place] ?? [],
      rule: 'completed',
      isCallback: false,
      dependsOn: vertices[place]?.dependsOn ?? [],
      inputs: { steps: before[place] ?? [] },
    }
  })
  const all = nodes.map((_, place) => place)
  return { type: 'dag', nodes: [...nodes, { kind: 'join', needs: all, rule: 'all' }] }
}
