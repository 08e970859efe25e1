/** Events of workflows and their `data`. */
import type { EndedStep, FailedStep, WorkflowHead, WorkflowRow } from '../job/workflow/row.ts'

/** What happened to a workflow (OJS events). `workflow.cancelled` is an addition of this gateway. */
export type WorkflowEvent =
  | { type: 'workflow.started'; workflow: WorkflowRow; requestId?: string }
  | { type: 'workflow.step_completed'; workflow: WorkflowHead; step: EndedStep }
  | { type: 'workflow.completed'; workflow: WorkflowHead }
  /** `step`: the last step that failed. */
  | { type: 'workflow.failed'; workflow: WorkflowHead; step: FailedStep | null }
  | { type: 'workflow.cancelled'; workflow: WorkflowHead; requestId?: string }

/** The data that the catalogue requires for each event. */
export function workflowData(event: WorkflowEvent): Readonly<Record<string, unknown>> {
  const { workflow } = event
  const named = { workflow_id: workflow.id, workflow_name: workflow.name, state: workflow.state }
  const { createdAt, endedAt } = workflow
  const duration = endedAt === null ? {} : { duration_ms: endedAt - createdAt }
  switch (event.type) {
    case 'workflow.started':
      return { ...named, total_steps: workflow.total }
    case 'workflow.step_completed':
      return { ...named, ...stepData(event.step), steps_remaining: workflow.open }
    case 'workflow.completed':
    case 'workflow.cancelled':
      return { ...named, ...duration }
    case 'workflow.failed':
      return { ...named, ...duration, ...failureData(event.step) }
  }
}

function stepData({ id, type, job }: EndedStep): object {
  const duration = (job?.completedAt ?? 0) - (job?.startedAt ?? job?.completedAt ?? 0)
  return { step_id: id, step_type: type, job_id: job?.id, duration_ms: duration }
}

/** Tells only the code of the error, since a message may be of any length. */
function failureData(step: FailedStep | null): object {
  if (step === null) return {}
  const { id, type, state, error } = step
  const record: { code?: unknown } = JSON.parse(error ?? '{}')
  const code = typeof record.code === 'string' ? record.code : state
  return { failed_step_id: id, failed_step_type: type, error: { code } }
}
