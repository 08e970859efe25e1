/** Runs workflows: which steps begin or end when a job ends, however their rows are kept. */
import { OjsError } from '../../errors.ts'
import type { Cause } from '../../job/history/changes.ts'
import { freshRow, type JobRow, type NewJob, type RowState } from '../../job/job.ts'
import type { PushRequest } from '../../job/request.ts'
import { isStale, type Stale } from '../../job/stale.ts'
import {
  nodesIn,
  parentResults,
  ResultBudget,
  type StepResult,
} from '../../job/workflow/results.ts'
import type { FailedStep, WorkflowHead } from '../../job/workflow/row.ts'
import { stepJob, type WorkflowSettings } from '../../job/workflow/step.ts'
import {
  type Arrivals,
  decideNode,
  type Inputs,
  type JobRule,
  type JoinRule,
  type Outcome,
} from '../../job/workflow/workflow.ts'
import { uuid7 } from '../../uuid.ts'
import type { Cancelled, WorkflowNews } from '../ended.ts'
import type { Inserted } from '../enqueued.ts'
import type { CancelledWorkflow, CheckedNode, NewWorkflow } from '../workflows.ts'

/** A node of a running workflow. */
export interface NodeRow extends Arrivals {
  /** Its place in the plan. */
  node: number
  rule: JobRule | JoinRule
  isCallback: boolean | number
  /** Null: a join, which has no job. */
  type: string | null
  id: string | null
  /** The nodes that wait for it, where they came with the row; JSON, or a list. See `OpenWorkflow.feeds`. */
  feeds?: string | readonly number[]
}

/** How many of the nodes that a node waits for have ended now, and how. */
export type Arriving = Record<Outcome, number>

/** How a node has ended. `error`: JSON text. */
export interface NodeEnd {
  outcome: Outcome
  /** What is shown as the state of its job. */
  state: RowState
  now: number
  error: string | null
}

/** Of the job of a step. */
export interface StepEnd extends NodeEnd {
  startedAt: number | null
  attempt: number
}

/** What a walk adds to the numbers of its workflow. */
export interface Progress extends Arriving {
  /** Null: it goes on. */
  outcome: Outcome | null
  now: number
}

type ResultRow = StepResult & { node: number }

/** A running workflow, inside a write. */
export interface OpenWorkflow {
  readonly id: string
  readonly settings: WorkflowSettings
  /** When it is, for the schedules of jobs. */
  wall(): number
  /** All of these are about to arrive: what they need can be read together. */
  expect?(arrivals: ReadonlyMap<number, Arriving>): void
  /** Fence: the node waits. */
  arrive(node: number, arriving: Arriving): NodeRow | undefined
  /** The nodes that wait for it. */
  feeds(row: NodeRow): readonly number[]
  /** JSON texts: what the step needs to begin. */
  source(node: number): { request: string; inputs: string }
  results(nodes: readonly number[]): readonly ResultRow[]
  result(jobId: string): string | null
  /** Stores the job of a step by its `unique` policy. */
  admit(node: number, job: NewJob, now: number): Inserted
  start(node: number, jobId: string): void
  /** Of a node without a job. */
  end(node: number, end: NodeEnd): void
  progress(progress: Progress): WorkflowHead
  /** The last step that failed. */
  lastFailed(): FailedStep | null
}

export interface NewNode {
  node: number
  rule: JobRule | JoinRule
  pending: number
  isCallback: boolean
  type: string | null
  id: string | null
  feeds: readonly number[]
  /** JSON texts; null: a join. */
  source: { dependsOn: string; inputs: string; request: string } | null
}

/** Stores the jobs of the steps that wait for nothing, of a workflow whose nodes are stored. Returns the news. */
export function beginWorkflow(
  workflow: OpenWorkflow,
  nodes: readonly NewNode[],
  now: number,
): readonly WorkflowNews[] {
  const walk = newWalk(workflow, now)
  for (const node of nodes)
    if (node.type !== null && node.pending === 0) begin(walk, { ...node, ...NONE })
  // A step whose job cannot be made has failed at once, and may end other steps.
  advance(walk)
  return finish(walk)
}

const NONE = { completed: 0, failed: 0, cancelled: 0 } as const

/** The nodes of a plan, as they are stored. */
export function newNodes(plan: readonly CheckedNode[]): NewNode[] {
  const feeds = feedsOf(plan)
  return plan.map((node, place) => {
    const { rule, needs } = node
    const common = { node: place, rule, pending: needs.length, feeds: feeds[place] ?? [] }
    if (node.kind === 'join')
      return { ...common, isCallback: false, type: null, id: null, source: null }
    const { isCallback, push, id, dependsOn, inputs } = node
    const text = JSON.stringify
    const source = {
      dependsOn: text(dependsOn),
      inputs: text(inputs),
      // Not a value: together they may be larger by far than what the client sent.
      get request() {
        return text(push)
      },
    }
    return { ...common, isCallback, type: push.type, id, source }
  })
}

/** How many jobs it has, without callbacks. */
export function totalOf({ nodes }: NewWorkflow): number {
  return nodes.filter((node) => node.kind === 'job' && !node.isCallback).length
}

/** What is known of the step of a job that has ended. */
export function stepEndOf(job: JobRow): StepEnd {
  const outcome = job.state === 'completed' ? 'completed' : 'failed'
  // Kept with the step, because the job may be retried as a dead letter, or deleted.
  const error = outcome === 'completed' ? null : job.error
  const { state, startedAt, attempt } = job
  return { outcome, state, now: endedAt(job), error, startedAt, attempt }
}

/** Begins or ends all that depends on a step that has ended (`stepEndOf`). Returns the news. */
export function advanceFrom(
  workflow: OpenWorkflow,
  row: NodeRow,
  job: JobRow,
): readonly WorkflowNews[] {
  const { outcome, now } = stepEndOf(job)
  const walk = newWalk(workflow, now)
  note(walk, row, outcome, job)
  advance(walk)
  return finish(walk)
}

/** A step that a cancelled workflow had not ended. */
export interface LeftStep extends Pick<NodeRow, 'type' | 'isCallback'> {
  jobId: string | null
}

/** Cancels the jobs of a workflow that is cancelled already, so that the end of one job begins no other step. */
export function cancelSteps(
  workflow: WorkflowHead,
  steps: readonly LeftStep[],
  cancel: (jobId: string, cause: Cause) => Cancelled | Stale,
): CancelledWorkflow {
  const jobs: Cancelled[] = []
  for (const { jobId } of steps) {
    const cancelled = jobId === null ? null : cancel(jobId, { reason: 'workflow_cancelled' })
    if (cancelled !== null && !isStale(cancelled)) jobs.push(cancelled)
  }
  // Callbacks that never began are not counted: nobody waits for them.
  const counted = steps.filter((step) => step.type !== null && !(step.isCallback && !step.jobId))
  return { workflow, stepsCancelled: counted.length, jobs }
}

type News = WorkflowNews extends infer One
  ? One extends unknown
    ? Omit<One, 'workflow'>
    : never
  : never

/**
 * Bytes of results that are copied into the jobs of one walk. Hundreds of steps may wait for the same end,
 * each for all the results before it, and all their jobs are made in one write. Results beyond the limit are
 * given as references.
 */
export const MAX_RESULT_BYTES = 16 * 1024 * 1024

/** One walk, inside a write: from a step that has ended to the nodes that begin or end because of it. */
interface Walk {
  workflow: OpenWorkflow
  now: number
  /** How much of `MAX_RESULT_BYTES` is left. */
  resultBytes: number
  /** Results by node, read once per walk: hundreds of jobs may begin, each with the results of hundreds. */
  results: Map<number, StepResult & { text: string | null }>
  /** Nodes that have ended, and whose dependents have still to be told. */
  over: { feeds: readonly number[]; outcome: Outcome }[]
  /** Nodes that wait no longer, to be skipped: nearly all of half a million dependencies may lead to them. */
  decided: Set<number>
  /** Ended steps in this walk, without callbacks. */
  ended: Record<Outcome, number>
  news: News[]
  /** News of other workflows, whose jobs were replaced by jobs of this walk. */
  ofOthers: WorkflowNews[]
  /** The outcome of the workflow, once there is one. */
  outcome: Outcome | null
}

/** Works in waves, so that a node that waits for many others is updated once per wave. */
function advance(walk: Walk): void {
  const { workflow } = walk
  while (walk.over.length > 0) {
    const arrivals = arrivalsOf(walk.over.splice(0), walk.decided)
    workflow.expect?.(arrivals)
    for (const [node, arriving] of arrivals) {
      const row = workflow.arrive(node, arriving)
      if (row !== undefined) decide(walk, row)
    }
  }
}

/** In the order of the first arrival. */
function arrivalsOf(wave: Walk['over'], decided: ReadonlySet<number>): Map<number, Arriving> {
  const arrivals = new Map<number, Arriving>()
  for (const { feeds, outcome } of wave) {
    for (const node of feeds) {
      if (decided.has(node)) continue
      const ofNode = arrivals.get(node) ?? { ...NONE }
      ofNode[outcome] += 1
      arrivals.set(node, ofNode)
    }
  }
  return arrivals
}

function decide(walk: Walk, row: NodeRow): void {
  const decision = decideNode(row.rule, row)
  if (decision === 'wait') return
  walk.decided.add(row.node)
  if (decision === 'start') begin(walk, row)
  else endNode(walk, row, decision, null)
}

/** Begins a step: stores its job, with the results of the steps before it. */
function begin(walk: Walk, row: NodeRow): void {
  const job = madeJob(walk, row)
  if (job instanceof OjsError) {
    endNode(walk, row, 'failed', job)
    return
  }
  walk.workflow.start(row.node, job.id)
  walk.news.push({ what: 'born', job })
}

/** Makes and stores the job of a step, as a PUSH would. Returns the error if PUSH would refuse it. */
function madeJob(walk: Walk, row: NodeRow): JobRow | OjsError {
  const { workflow, now } = walk
  const { id, settings } = workflow
  const source = workflow.source(row.node)
  const inputs: Inputs = JSON.parse(source.inputs)
  const request: PushRequest = JSON.parse(source.request)
  try {
    const job = stepJob(request, {
      id: uuid7(),
      now,
      wall: workflow.wall(),
      workflow: { id, step: row.id ?? '', settings },
      parentResults: resultsOf(walk, inputs),
    })
    return stored(walk, row.node, job)
  } catch (error) {
    // Not thrown: the end of the previous job must not fail because this one cannot be made.
    if (error instanceof OjsError) return error
    throw error
  }
}

/** Stores the job by its `unique` policy, which may cancel others. Never takes an existing job for it. */
function stored(walk: Walk, node: number, job: NewJob): JobRow | OjsError {
  const admitted = walk.workflow.admit(node, job, walk.now)
  if (admitted.outcome !== 'inserted') {
    return new OjsError('duplicate', 'A job with the same unique key exists already.')
  }
  const { replacing } = admitted
  for (const { news = [], ...cancelled } of replacing?.cancelled ?? []) {
    for (const one of news) walk.ofOthers.push(one)
    walk.news.push({ what: 'replaced', cancelled })
  }
  return freshRow(replacing?.job ?? job, admitted)
}

function resultsOf(walk: Walk, inputs: Inputs): string {
  const { workflow, results } = walk
  const unread = nodesIn(inputs).filter((node) => !results.has(node))
  const read = unread.length === 0 ? [] : workflow.results(unread)
  for (const { node, ...result } of read) results.set(node, { ...result, text: null })
  return parentResults(inputs, results, new ResultBudget(walk.resultBytes), (result) => {
    walk.resultBytes -= result.bytes
    result.text ??= workflow.result(result.jobId)
    return result.text
  })
}

/** Ends a node without a job: a step that never began or whose job cannot be made, or a join. */
function endNode(walk: Walk, row: NodeRow, outcome: Outcome, cause: OjsError | null): void {
  const error = cause && JSON.stringify({ code: cause.code, message: cause.message })
  const state = outcome === 'failed' ? 'discarded' : outcome
  walk.workflow.end(row.node, { outcome, state, now: walk.now, error })
  note(walk, row, outcome, null)
}

function note(walk: Walk, row: NodeRow, outcome: Outcome, job: JobRow | null): void {
  const feeds = walk.workflow.feeds(row)
  walk.over.push({ feeds, outcome })
  if (row.type === null) {
    // The last node, for which no node waits, stands for the workflow.
    if (feeds.length === 0) walk.outcome = outcome
    return
  }
  if (!row.isCallback) walk.ended[outcome]++
  if (outcome === 'cancelled') return
  walk.news.push({ what: 'step', step: { id: row.id ?? '', type: row.type, outcome, job } })
}

/** Updates the workflow's row with the outcome of the walk. Returns all news, those of other workflows first. */
function finish(walk: Walk): readonly WorkflowNews[] {
  const { workflow, ended, outcome, now, news } = walk
  const head = workflow.progress({ ...ended, outcome, now })
  if (outcome !== null) {
    news.push({ what: 'ended', failed: outcome === 'failed' ? workflow.lastFailed() : null })
  }
  const own = news.map((item) => ({ ...item, workflow: head }))
  return walk.ofOthers.length === 0 ? own : [...walk.ofOthers, ...own]
}

function newWalk(workflow: OpenWorkflow, now: number): Walk {
  return {
    workflow,
    now,
    resultBytes: MAX_RESULT_BYTES,
    results: new Map(),
    over: [],
    decided: new Set(),
    ended: { ...NONE },
    news: [],
    ofOthers: [],
    outcome: null,
  }
}

function feedsOf(nodes: readonly CheckedNode[]): number[][] {
  const feeds: number[][] = nodes.map(() => [])
  for (const [place, { needs }] of nodes.entries())
    for (const before of needs) feeds[before]?.push(place)
  return feeds
}

function endedAt({ state, completedAt, discardedAt, cancelledAt, enqueuedAt }: JobRow): number {
  const at = { completed: completedAt, discarded: discardedAt, cancelled: cancelledAt } as const
  return (state in at ? at[state as keyof typeof at] : null) ?? enqueuedAt
}
