import { toNewJob } from './envelope.ts'
import type { NewJob } from './job.ts'
import type { PushRequest } from './request.ts'
import { traceOf } from './trace-carry.ts'

/** What every job of a workflow is made with, as it was when the workflow came. */
export interface WorkflowSettings {
  /** Of the request. */
  traceparent?: string
  tracestate?: string
  timeoutMs: number
  prefix: string
}

/** A step that begins. */
export interface StepStart {
  /** Of its job. */
  id: string
  now: number
  wall: number
  workflow: { id: string; step: string; settings: WorkflowSettings }
  /** JSON text; see `parentResults`. */
  parentResults: string
}

/**
 * The job of a step. Its times are counted from here: `+PT5S` is 5 s after what it waited for.
 * `workflow_id`, `workflow_step` and `parent_results` are members of the envelope, so that FETCH and
 * the AMQP body carry them. Throws `OjsError` for a request that PUSH would refuse.
 */
export function stepJob(request: PushRequest, start: StepStart): NewJob {
  const { id, now, wall, workflow, parentResults } = start
  const { timeoutMs, prefix, ...trace } = workflow.settings
  const carry = traceOf(request, trace)
  const job = toNewJob(request, { newId: () => id, now, wall, timeoutMs, prefix, carry })
  const members = `"workflow_id":"${workflow.id}","workflow_step":${JSON.stringify(workflow.step)}`
  const envelope = `${job.envelope.slice(0, -1)},${members},"parent_results":${parentResults}}`
  return { ...job, envelope }
}
