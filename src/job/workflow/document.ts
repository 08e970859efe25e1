/** Workflows as JSON for answers: whole, in lists, cancelled (seed 001 §14). */
import { timestamp } from '../document.ts'
import { ResultBudget } from './results.ts'
import type { WorkflowHead, WorkflowRow, WorkflowStep } from './row.ts'

/** A workflow as JSON text for answers (seed 001 §14.1, §14.2). */
export function workflowDocument(workflow: WorkflowRow): string {
  const budget = new ResultBudget()
  const steps = workflow.steps.filter(({ isCallback }) => !isCallback)
  const callbacks = workflow.steps.filter(({ isCallback }) => isCallback)
  let text = `${members(summary(workflow))},${members(times(workflow))},"steps":${listText(steps, budget)}`
  if (callbacks.length > 0) text += `,"callbacks":${listText(callbacks, budget)}`
  const metadata = { ...times(workflow), ...counts(workflow) }
  return `{${text},${members({ ...failures(workflow), metadata })}}`
}

/** A workflow without its steps, for lists. */
export function workflowSummary(workflow: WorkflowHead): object {
  return { ...summary(workflow), ...times({ ...workflow, startedAt: null }) }
}

/** The answer to a cancellation (seed 001 §14.3). */
export function cancellationDocument(
  { id, name, state, endedAt, completed }: WorkflowHead,
  stepsCancelled: number,
): object {
  return {
    id,
    ...(name !== null && { name }),
    state,
    cancelled_at: timestamp(endedAt ?? 0),
    steps_cancelled: stepsCancelled,
    steps_already_completed: completed,
  }
}

function summary({ id, name, type, state, total, completed }: WorkflowHead): object {
  return {
    id,
    ...(name !== null && { name }),
    type,
    state,
    // The same numbers under the names of both dialects (OJS workflows).
    steps_total: total,
    steps_completed: completed,
    jobs_total: total,
    jobs_completed: completed,
  }
}

interface Times {
  created_at: string
  started_at?: string
  completed_at?: string
  cancelled_at?: string
}

function times({ createdAt, startedAt, endedAt, state }: Omit<WorkflowRow, 'steps'>): Times {
  return {
    created_at: timestamp(createdAt),
    ...(startedAt !== null && { started_at: timestamp(startedAt) }),
    ...(endedAt !== null && end(state, endedAt)),
  }
}

/** The end time: `cancelled_at` if cancelled, else `completed_at`, also for a failure. */
function end(state: string, endedAt: number): Pick<Times, 'completed_at' | 'cancelled_at'> {
  const at = timestamp(endedAt)
  return state === 'cancelled' ? { cancelled_at: at } : { completed_at: at }
}

function counts({ total, completed, failed }: WorkflowHead): object {
  return { job_count: total, completed_count: completed, failed_count: failed }
}

/** The failed steps, in the order in which they failed (OJS workflows). */
function failures({ steps }: WorkflowRow): object {
  const failed = steps.filter(({ progress }) => progress === 'failed')
  failed.sort((a, b) => (a.endedAt ?? 0) - (b.endedAt ?? 0))
  const [first] = failed
  if (first === undefined) return {}
  return {
    failed_step_id: first.id,
    failed_step_index: steps.indexOf(first),
    failed_job_ids: failed.map(({ jobId }) => jobId).filter((id) => id !== null),
    errors: errorsOf(failed),
  }
}

function errorsOf(failed: readonly WorkflowStep[]): object[] {
  return failed.map(({ jobId, state, error, attempt }) => {
    const record: { code?: unknown; message?: unknown } = JSON.parse(error ?? '{}')
    // A step whose job was cancelled has no error record.
    const { code = state, message = `The job was ${state}.` } = record
    return { job_id: jobId, code, message, attempt }
  })
}

function listText(steps: readonly WorkflowStep[], budget: ResultBudget): string {
  return `[${steps.map((step) => stepText(step, budget)).join(',')}]`
}

function stepText(step: WorkflowStep, budget: ResultBudget): string {
  const { id, type, state, jobId, startedAt, endedAt, dependsOn, error, progress } = step
  let text = members({
    id,
    type,
    state,
    job_id: jobId,
    ...(startedAt !== null && { started_at: timestamp(startedAt) }),
    ...(endedAt !== null && jobId !== null && end(state, endedAt)),
    depends_on: dependsOn,
  })
  if (progress === 'completed' && jobId !== null && step.resultBytes > 0) {
    text += `,"result":${budget.show({ jobId, bytes: step.resultBytes }, () => step.result)}`
  }
  if (error !== null && progress !== 'completed') {
    text += `,"error":${error}`
  }
  return `{${text}}`
}

/** The members of an object as JSON text without the braces, so that more can be appended. */
function members(source: object): string {
  return JSON.stringify(source).slice(1, -1)
}
