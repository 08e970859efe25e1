/** Creates, reads, lists and cancels workflows. */
import { stateConflictCode } from '../../dialect.ts'
import { notFound, OjsError } from '../../errors.ts'
import type { ProgressNote } from '../../job/progress.ts'
import { planWorkflow } from '../../job/workflow/plan.ts'
import type { WorkflowHead, WorkflowRow } from '../../job/workflow/row.ts'
import type { WorkflowSettings } from '../../job/workflow/step.ts'
import type { PlanNode } from '../../job/workflow/workflow.ts'
import type { KeyedRequest, Remembered } from '../../ledger/idempotency.ts'
import type { CheckedNode, WorkflowQuery } from '../../ledger/workflows.ts'
import { parsePush } from '../../schemas/requests/validator.ts'
import { parseGraphSteps, parseWorkflow } from '../../schemas/requests/workflow.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { ArgsChecks } from '../enqueue/check-args.ts'
import { once, rememberedResource } from '../enqueue/idempotency.ts'
import { newJob, requireQueue } from '../enqueue/push.ts'
import { followCancel, followNews } from '../job-end.ts'
import { requireNoMaintenance } from '../maintenance.ts'
import { withDefaultRetry } from '../queues/configure.ts'
import { requirePublishing } from '../require-broker.ts'
import { briefly } from '../workers/broadcasts.ts'

export interface CreatedWorkflow {
  workflow: WorkflowRow
  /** True: this is the answer to an earlier request with the same `Idempotency-Key`. */
  isReplay?: boolean
}

/**
 * Creates and starts a workflow (seed 001 §14.1). Checks all of it first, then stores the workflow and the
 * jobs of its first steps in one commit. Answers from that commit; the outbox owes the jobs' messages. Throws
 * 400, 409 when the id is taken, 422, 429, 503.
 */
export function createWorkflow(
  deps: Deps,
  body: unknown,
  context: RequestContext,
): Promise<CreatedWorkflow> {
  return once(
    deps,
    { endpoint: 'workflows', body, context },
    ({ request }) => createNew(deps, body, context, request),
    (remembered, request) => replayed(deps, remembered, request),
  )
}

async function createNew(
  deps: Deps,
  body: unknown,
  context: RequestContext,
  keyed: KeyedRequest | undefined,
): Promise<CreatedWorkflow> {
  const request = parseWorkflow(body)
  const plan = planWorkflow(request, parseGraphSteps)
  const { nodes, queues } = await checkedNodes(deps, plan.nodes, context)
  requireNoMaintenance(deps)
  requirePublishing(deps)
  for (const queue of queues) await requireQueue(deps, queue)
  const id = request.id ?? deps.newId()
  const name = request.name ?? null
  const settings = settingsOf(deps, context)
  const planned = { id, name, type: plan.type, settings, nodes }
  const created = await deps.ledger.workflows.create(planned, deps.clock.now(), keyed)
  if (created.outcome === 'remembered') return await replayed(deps, created.remembered, keyed)
  if (created.outcome === 'duplicate') throw idTaken(id)
  const { workflow, news } = created
  if (news !== undefined) followNews(deps, news)
  deps.events.emit({ type: 'workflow.started', workflow, requestId: context.requestId })
  return { workflow }
}

async function replayed(
  deps: Deps,
  remembered: Remembered,
  request: KeyedRequest | undefined,
): Promise<CreatedWorkflow> {
  const find = (id: string) => deps.ledger.read.workflows.find(id)
  return {
    workflow: await rememberedResource('workflow', remembered, request, find),
    isReplay: true,
  }
}

function idTaken(id: string): OjsError {
  return new OjsError('duplicate', `A workflow with the id '${id}' already exists.`, {
    details: { field: 'id', resource_type: 'workflow', resource_id: id },
  })
}

/** Checks the steps as PUSH would; their jobs are made when they begin. */
async function checkedNodes(
  deps: Deps,
  planned: readonly PlanNode[],
  context: RequestContext,
): Promise<{ nodes: CheckedNode[]; queues: Set<string> }> {
  const checks = new ArgsChecks(deps, planned.length, (error, place) =>
    aboutStep(error, planned[place]),
  )
  const nodes: CheckedNode[] = []
  const queues = new Set<string>()
  for (const [place, node] of planned.entries()) {
    if (node.kind === 'join') {
      nodes.push(node)
      continue
    }
    try {
      // A step is made later, and by then with what was set for its queue at the request.
      const push = withDefaultRetry(deps, parsePush(node.request))
      checks.add(push, place)
      queues.add(newJob(deps, push, context).queue)
      nodes.push({ ...node, push })
    } catch (error) {
      checks.fail(error, place)
      break
    }
  }
  await checks.rest()
  return { nodes, queues }
}

function aboutStep(error: OjsError, node: PlanNode | undefined): OjsError {
  if (node?.kind !== 'job') return error
  const { id, path } = node
  const field = error.details?.['field']
  const where = typeof field === 'string' ? { field: `${path}.${field}` } : { field: path }
  return error.withDetails({ ...where, step: id }, `Step '${id}': ${error.message}`)
}

/** The context is kept without its idempotency key, which names the request as a whole and not its jobs. */
function settingsOf({ settings }: Deps, context: RequestContext): WorkflowSettings {
  const { timeoutMs, prefix } = settings
  const { traceparent, tracestate } = context
  return {
    timeoutMs,
    prefix,
    ...(traceparent && { traceparent }),
    ...(tracestate && { tracestate }),
  }
}

/** Characters of what steps say beside a number that one answer shows; the rest is at `GET /jobs/:id/progress`. */
const MAX_PROGRESS_DATA = 1_048_576
/** Each may have 64 KiB of such text. */
const NOTES_AT_ONCE = 100

/** Returns a workflow with its steps (seed 001 §14.2). A pure read. Throws 404. */
export async function getWorkflow(deps: Pick<Deps, 'ledger'>, id: string): Promise<WorkflowRow> {
  const workflow = await deps.ledger.read.workflows.find(id)
  if (workflow === null) throw notFound('workflow', id)
  return workflow
}

/** A workflow, and what the jobs of its steps have reported in their present attempts. A pure read. Throws 404. */
export async function readWorkflowProgress(
  deps: Pick<Deps, 'ledger'>,
  id: string,
): Promise<{ workflow: WorkflowRow; notes: ReadonlyMap<string, ProgressNote> }> {
  const workflow = await getWorkflow(deps, id)
  const ids = workflow.steps.flatMap(({ jobId, isCallback }) => (isCallback ? [] : (jobId ?? [])))
  const notes = new Map<string, ProgressNote>()
  let room = MAX_PROGRESS_DATA
  for (let i = 0; i < ids.length; i += NOTES_AT_ONCE) {
    for (const [jobId, note] of await deps.ledger.read.progress.present(
      ids.slice(i, i + NOTES_AT_ONCE),
    )) {
      const length = note.data?.length ?? 0
      notes.set(jobId, length > room ? { ...note, data: null } : note)
      if (length <= room) room -= length
    }
  }
  return { workflow, notes }
}

/** Lists workflows, newest first, without their steps. */
export function listWorkflows(
  deps: Pick<Deps, 'ledger'>,
  query: WorkflowQuery,
): Promise<{ workflows: WorkflowHead[]; total: number }> {
  return deps.ledger.read.workflows.list(query)
}

/** The outcome of a workflow's cancellation. */
export interface WorkflowCancellation {
  workflow: WorkflowHead
  stepsCancelled: number
}

/**
 * Cancels a workflow with every job of it that has not ended, active ones too (seed 001 §14.3, C-29).
 * Throws 404, 409 when it has ended, 503.
 */
export async function cancelWorkflow(
  deps: Deps,
  id: string,
  context: RequestContext,
): Promise<WorkflowCancellation> {
  const cancelled = await deps.ledger.workflows.cancel(id, deps.clock.now())
  if (cancelled === 'stale') throw await notRunning(deps, id)
  const { workflow, stepsCancelled, jobs } = cancelled
  const told = jobs.map((job) => followCancel(deps, job, context))
  deps.events.emit({ type: 'workflow.cancelled', workflow, requestId: context.requestId })
  await briefly(Promise.all(told))
  return { workflow, stepsCancelled }
}

async function notRunning(deps: Deps, id: string): Promise<OjsError> {
  const { state } = await getWorkflow(deps, id)
  return new OjsError(
    stateConflictCode(deps.settings.dialect),
    `Cannot cancel workflow in terminal state '${state}'.`,
    {
      status: 409,
      details: { reason: 'invalid_state_transition', workflow_id: id, current_state: state },
    },
  )
}
