/** The rows of running workflows, of which `writes/workflow-walk.ts` makes steps begin and end. */
import type { JobRow, NewJob } from '../../../job/job.ts'
import type { FailedStep, WorkflowHead } from '../../../job/workflow/row.ts'
import type { WorkflowSettings } from '../../../job/workflow/step.ts'
import type { WorkflowNews } from '../../ended.ts'
import type { Inserted } from '../../enqueued.ts'
import type { NewWorkflow } from '../../workflows.ts'
import {
  type Arriving,
  advanceFrom,
  beginWorkflow,
  type NewNode,
  type NodeEnd,
  type NodeRow,
  newNodes,
  type OpenWorkflow,
  type Progress,
  stepEndOf,
  totalOf,
} from '../../writes/workflow-walk.ts'
import { onlyRow } from '../sql/driver.ts'
import type { NodeColumns, WorkflowStatements } from '../sql/workflow.ts'
import type { Store } from '../state/store.ts'
import { admit } from './unique.ts'

/** Stores the workflow and the jobs of the steps that wait for nothing. Returns the news. */
export function createWorkflow(
  store: Store,
  workflow: NewWorkflow,
  now: number,
): readonly WorkflowNews[] {
  const { statements } = store.workflows
  const { id, type, name, settings } = workflow
  const total = totalOf(workflow)
  const row = statements.create.get(id, type, total, now, name, JSON.stringify(settings))
  const { seq } = onlyRow(row)
  store.workflows.moved(null, 'running')
  const nodes = newNodes(workflow.nodes)
  for (const node of nodes) statements.addNode.run(seq, node.node, ...columnsOf(node))
  return beginWorkflow(new OpenRows(store, { seq, id, settings }), nodes, now)
}

/**
 * Ends the step whose job is over, and begins or ends all that depends on it. Returns the news. Does nothing for
 * a job that is no step, or whose workflow had ended before.
 */
export function endStep(store: Store, job: JobRow): readonly WorkflowNews[] | undefined {
  const { statements } = store.workflows
  const { outcome, state, now, error, startedAt, attempt } = stepEndOf(job)
  const row = statements.endStep.get(job.id, outcome, state, now, error, startedAt, attempt)
  if (row === undefined) return undefined
  const { workflow: seq, ...node } = row
  const { settings, id } = onlyRow(statements.bySeq.get(seq))
  const workflow = { seq, id, settings: JSON.parse(settings) as WorkflowSettings }
  return advanceFrom(new OpenRows(store, workflow), node, job)
}

class OpenRows implements OpenWorkflow {
  readonly id: string
  readonly settings: WorkflowSettings
  readonly #store: Store
  readonly #statements: WorkflowStatements
  readonly #seq: number

  constructor(
    store: Store,
    { seq, id, settings }: { seq: number } & Pick<OpenWorkflow, 'id' | 'settings'>,
  ) {
    this.id = id
    this.settings = settings
    this.#store = store
    this.#statements = store.workflows.statements
    this.#seq = seq
  }

  wall(): number {
    return this.#store.wall()
  }

  arrive(node: number, { completed, failed, cancelled }: Arriving): NodeRow | undefined {
    const count = completed + failed + cancelled
    return this.#statements.arrive.get(this.#seq, node, count, completed, failed, cancelled)
  }

  feeds({ feeds = [] }: NodeRow): readonly number[] {
    return typeof feeds === 'string' ? (JSON.parse(feeds) as number[]) : feeds
  }

  source(node: number): { request: string; inputs: string } {
    return onlyRow(this.#statements.source.get(this.#seq, node))
  }

  results(nodes: readonly number[]): ReturnType<OpenWorkflow['results']> {
    return this.#statements.results.all(this.#seq, JSON.stringify(nodes))
  }

  result(jobId: string): string | null {
    return this.#statements.result.get(jobId)?.result ?? null
  }

  admit(_: number, job: NewJob, now: number): Inserted {
    return admit(this.#store, job, now, { cause: { reason: 'workflow' } })
  }

  start(node: number, jobId: string): void {
    this.#statements.startStep.run(this.#seq, node, jobId)
  }

  end(node: number, { outcome, state, now, error }: NodeEnd): void {
    this.#statements.endNode.run(this.#seq, node, outcome, state, now, error)
  }

  progress({ completed, failed, cancelled, outcome, now }: Progress): WorkflowHead {
    const ended = completed + failed + cancelled
    const state = outcome ?? 'running'
    if (outcome !== null) this.#store.workflows.moved('running', outcome)
    const endedAt = outcome === null ? null : now
    const { progress } = this.#statements
    return onlyRow(progress.get(this.#seq, ended, completed, failed, state, endedAt))
  }

  lastFailed(): FailedStep | null {
    return this.#statements.lastFailed.get(this.#seq) ?? null
  }
}

/** The parameters `rule` to `request` of the statement `addNode`. */
function columnsOf({ rule, pending, isCallback, type, id, feeds, source }: NewNode): NodeColumns {
  const { dependsOn = null, inputs = null, request = null } = source ?? {}
  const flag = isCallback ? 1 : 0
  return [rule, pending, flag, type, id, dependsOn, JSON.stringify(feeds), inputs, request]
}
