/** The calls that are about workflows. */
import { newWorkflow } from '../../support/gateway/workflows.ts'
import { type Given, NO_WORKFLOW, verbs } from './call.ts'
import { requestOf, stepOf } from './made.ts'

const SHAPES = (n: number) => {
  const [a, b, c] = [stepOf(n), stepOf(n + 1), stepOf(n + 5)]
  const callbacks = { on_complete: a, ...(n % 2 === 0 && { on_success: b }), on_failure: c }
  return [
    { type: 'chain', steps: [a, b] },
    { type: 'group', jobs: [a, b, c] },
    { type: 'batch', jobs: [a, b], callbacks },
    { type: 'chain', steps: [{ type: 'batch', jobs: [a], callbacks: { on_failure: b } }, c] },
    {
      name: 'graph',
      steps: [
        { ...a, id: 'a' },
        { ...b, id: 'b', depends_on: ['a'] },
        { ...c, id: 'c', depends_on: ['a'] },
        { ...a, id: 'd', depends_on: ['b', 'c'] },
      ],
    },
  ]
}

function workflowOf({ call, fresh, workflow }: Given) {
  const shapes = SHAPES(call.n)
  const shape = shapes[call.n % shapes.length] ?? {}
  const isTaken = call.n % 13 === 0 && workflow !== NO_WORKFLOW
  return newWorkflow(shape, { id: isTaken ? workflow : `workflow-${fresh}` })
}

export const WORKFLOW_VERBS = verbs({
  createWorkflow: {
    weight: 4,
    run: (g) => g.ledger.workflows.create(workflowOf(g), g.now, requestOf(g.call).request),
  },
  cancelWorkflow: { run: (g) => g.ledger.workflows.cancel(g.workflow, g.now) },
})
