import type { EndedStep, WorkflowRow } from '../../src/job/workflow/row.ts'

/** A workflow as the ledger would return it, for tests of what telemetry makes of it. */
export function workflowRow(change: Partial<WorkflowRow> = {}): WorkflowRow {
  return {
    id: 'w',
    name: 'told',
    type: 'chain',
    state: 'running',
    createdAt: 1_000,
    endedAt: null,
    total: 2,
    completed: 0,
    failed: 0,
    open: 2,
    startedAt: null,
    steps: [],
    ...change,
  }
}

export function endedStep(change: Partial<EndedStep> = {}): EndedStep {
  return { id: 's', type: 't', outcome: 'completed', job: null, ...change }
}
