/** Makes the job of a step that begins. */
import { toNewJob } from '../envelope.ts'
import type { NewJob } from '../job.ts'
import type { PushRequest } from '../request.ts'
import { traceOf } from '../trace/carry.ts'

/** What every job of a workflow is made with: the settings and the trace at the time of its request. */
export interface WorkflowSettings {
  /** The trace context of the request. */
  traceparent?: string
  tracestate?: string
  timeoutMs: number
  prefix: string
}

/** What is needed to make the job of a step that begins. */
export interface StepStart {
  /** The id of the job. */
  id: string
  now: number
  wall: number
  workflow: { id: string; step: string; settings: WorkflowSettings }
  /** JSON text; see `parentResults`. */
  parentResults: string
}

/**
 * Makes the job of a step. Relative times count from now: `+PT5S` is 5 s after the steps that it waited for.
 * `workflow_id`, `workflow_step` and `parent_results` are members of the envelope, so that FETCH and the AMQP
 * body carry them. Throws `OjsError` for a request that PUSH would refuse.
 */
export function stepJob(request: PushRequest, start: StepStart): NewJob {
  const { id, now, wall, workflow, parentResults } = start
  const { timeoutMs, prefix, ...trace } = workflow.settings
  const carry = traceOf(request, trace)
  // Later steps are given its result: it is kept as long as the workflow, whatever its `result_ttl`.
  const resultMs = 0
  const job = toNewJob(request, { newId: () => id, now, wall, timeoutMs, resultMs, prefix, carry })
  const members = `"workflow_id":"${workflow.id}","workflow_step":${JSON.stringify(workflow.step)}`
  const envelope = `${job.envelope.slice(0, -1)},${members},"parent_results":${parentResults}}`
  return { ...job, envelope }
}
