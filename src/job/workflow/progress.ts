/** How far a workflow is, as JSON text for answers (OJS progress). */
import { timestamp } from '../document.ts'
import type { ProgressNote } from '../progress.ts'
import type { WorkflowRow, WorkflowStep } from './row.ts'

/** `notes`: what the jobs of the steps have reported in their present attempts, by their ids. */
export function workflowProgress(
  workflow: WorkflowRow,
  notes: ReadonlyMap<string, ProgressNote>,
): string {
  const { id, type } = workflow
  const steps = workflow.steps
    .filter(({ isCallback }) => !isCallback)
    .map((step) => ({ step, note: (step.jobId && notes.get(step.jobId)) || null }))
  const done = steps.map(({ step, note }) => {
    if (step.progress === 'completed') return 1
    // A batch counts jobs.
    return type === 'batch' ? 0 : (note?.progress ?? 0)
  })
  const progress = done.reduce((sum, one) => sum + one, 0) / Math.max(1, steps.length)
  const updatedAt = timestamp(Math.max(...timesOf(workflow), ...steps.map(lastOf)))
  const head = JSON.stringify({ workflow_id: id, id, type, progress, updated_at: updatedAt })
  const texts = steps.map(({ step, note }) => stepText(step, note))
  return `${head.slice(0, -1)},"steps":[${texts.join(',')}]}`
}

/** Null: it has no job yet, or has reported nothing. */
function stepText({ id, jobId, type, state, progress }: WorkflowStep, note: ProgressNote | null) {
  const own = progress === 'completed' ? 1 : (note?.progress ?? null)
  const text = JSON.stringify({ id, job_id: jobId, type, state, progress: own })
  const data = note?.data ?? null
  return data === null ? text : `${text.slice(0, -1)},"data":${data}}`
}

function timesOf({ createdAt, startedAt, endedAt }: WorkflowRow): number[] {
  return [createdAt, startedAt ?? 0, endedAt ?? 0]
}

function lastOf({ step, note }: { step: WorkflowStep; note: ProgressNote | null }): number {
  return Math.max(step.startedAt ?? 0, step.endedAt ?? 0, note?.updatedAt ?? 0)
}
