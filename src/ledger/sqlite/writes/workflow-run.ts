/** Runs workflows: which steps begin or end when a job ends. */
import { OjsError } from '../../../errors.ts'
import { freshRow, type JobRow, type NewJob } from '../../../job/job.ts'
import type { PushRequest } from '../../../job/request.ts'
import {
  nodesIn,
  parentResults,
  ResultBudget,
  type StepResult,
} from '../../../job/workflow/results.ts'
import type { FailedStep } from '../../../job/workflow/row.ts'
import { stepJob, type WorkflowSettings } from '../../../job/workflow/step.ts'
import { decideNode, type Inputs, type Outcome } from '../../../job/workflow/workflow.ts'
import { uuid7 } from '../../../uuid.ts'
import type { WorkflowNews } from '../../ended.ts'
import type { CheckedNode, NewWorkflow } from '../../workflows.ts'
import { onlyRow } from '../sql/driver.ts'
import type { NodeColumns, NodeRow } from '../sql/workflow.ts'
import type { Store } from '../state/store.ts'
import { admit } from './unique.ts'

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
const MAX_RESULT_BYTES = 16 * 1024 * 1024

/** One walk, inside a write: from a step that has ended to the nodes that begin or end because of it. */
interface Walk {
  store: Store
  seq: number
  id: string
  settings: WorkflowSettings
  now: number
  /** How much of `MAX_RESULT_BYTES` is left. */
  resultBytes: number
  /** Results by node, read once per walk: hundreds of jobs may begin, each with the results of hundreds. */
  results: Map<number, StepResult & { text: string | null }>
  /** Nodes that have ended, and whose dependents have still to be told. */
  over: { feeds: string; outcome: Outcome }[]
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

/** Stores the workflow and the jobs of the steps that wait for nothing. Returns the news. */
export function createWorkflow(
  store: Store,
  workflow: NewWorkflow,
  now: number,
): readonly WorkflowNews[] {
  const { statements } = store.workflows
  const { id, type, name, settings, nodes } = workflow
  const total = nodes.filter((node) => node.kind === 'job' && !node.isCallback).length
  const row = statements.create.get(id, type, total, now, name, JSON.stringify(settings))
  const { seq } = onlyRow(row)
  store.workflows.moved(null, 'running')
  const feeds = feedsOf(nodes)
  for (const [place, node] of nodes.entries()) {
    statements.addNode.run(seq, place, ...columnsOf(node, feeds[place] ?? []))
  }
  const walk = newWalk(store, { seq, id, settings }, now)
  for (const [place, node] of nodes.entries()) {
    if (node.kind === 'job' && node.needs.length === 0) begin(walk, rootRow(node, place, feeds))
  }
  // A step whose job cannot be made has failed at once, and may end other steps.
  advance(walk)
  return finish(walk)
}

/**
 * Ends the step whose job is over, and begins or ends all that depends on it. Returns the news. Does nothing for
 * a job that is no step, or whose workflow had ended before.
 */
export function endStep(store: Store, job: JobRow): readonly WorkflowNews[] | undefined {
  const now = endedAt(job)
  const { statements } = store.workflows
  const outcome = job.state === 'completed' ? 'completed' : 'failed'
  // Kept with the step, because the job may be retried as a dead letter, or deleted.
  const error = outcome === 'completed' ? null : job.error
  const { id: jobId, state, startedAt, attempt } = job
  const row = statements.endStep.get(jobId, outcome, state, now, error, startedAt, attempt)
  if (row === undefined) return undefined
  const { workflow: seq, ...node } = row
  const { settings, id } = onlyRow(statements.bySeq.get(seq))
  const walk = newWalk(store, { seq, id, settings: JSON.parse(settings) }, now)
  note(walk, node, outcome, job)
  advance(walk)
  return finish(walk)
}

/** Works in waves, so that a node that waits for many others is updated once per wave. */
function advance(walk: Walk): void {
  const { arrive } = walk.store.workflows.statements
  while (walk.over.length > 0) {
    const wave = walk.over.splice(0)
    for (const [node, { completed, failed, cancelled }] of arrivalsOf(wave, walk.decided)) {
      const count = completed + failed + cancelled
      const row = arrive.get(walk.seq, node, count, completed, failed, cancelled)
      if (row !== undefined) decide(walk, row)
    }
  }
}

/** For each node that waits for ended nodes: how many ended how. In the order of the first arrival. */
function arrivalsOf(
  wave: Walk['over'],
  decided: ReadonlySet<number>,
): Map<number, Record<Outcome, number>> {
  const arrivals = new Map<number, Record<Outcome, number>>()
  for (const { feeds, outcome } of wave) {
    for (const node of JSON.parse(feeds) as number[]) {
      if (decided.has(node)) continue
      const ofNode = arrivals.get(node) ?? { completed: 0, failed: 0, cancelled: 0 }
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
  const { store, seq } = walk
  const job = madeJob(walk, row)
  if (job instanceof OjsError) {
    endNode(walk, row, 'failed', job)
    return
  }
  store.workflows.statements.startStep.run(seq, row.node, job.id)
  walk.news.push({ what: 'born', job })
}

/** Makes and stores the job of a step, as a PUSH would. Returns the error if PUSH would refuse it. */
function madeJob(walk: Walk, row: NodeRow): JobRow | OjsError {
  const { store, seq, now, settings, id: workflow } = walk
  const { statements } = store.workflows
  const source = onlyRow(statements.source.get(seq, row.node))
  const inputs: Inputs = JSON.parse(source.inputs)
  const request: PushRequest = JSON.parse(source.request)
  try {
    const job = stepJob(request, {
      id: uuid7(),
      now,
      wall: store.wall(),
      workflow: { id: workflow, step: row.id ?? '', settings },
      parentResults: resultsOf(walk, inputs),
    })
    return stored(walk, job)
  } catch (error) {
    // Not thrown: the end of the previous job must not fail because this one cannot be made.
    if (error instanceof OjsError) return error
    throw error
  }
}

/** Stores the job by its `unique` policy, which may cancel others. Never takes an existing job for it. */
function stored(walk: Walk, job: NewJob): JobRow | OjsError {
  const admitted = admit(walk.store, job, walk.now, { cause: { reason: 'workflow' } })
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
  const { store, seq, results } = walk
  const { statements } = store.workflows
  const unread = nodesIn(inputs).filter((node) => !results.has(node))
  const read = unread.length === 0 ? [] : statements.results.all(seq, JSON.stringify(unread))
  for (const { node, ...result } of read) results.set(node, { ...result, text: null })
  return parentResults(inputs, results, new ResultBudget(walk.resultBytes), (result) => {
    walk.resultBytes -= result.bytes
    result.text ??= statements.result.get(result.jobId)?.result ?? null
    return result.text
  })
}

/** Ends a node without a job: a step that never began or whose job cannot be made, or a join. */
function endNode(walk: Walk, row: NodeRow, outcome: Outcome, cause: OjsError | null): void {
  const { store, seq, now } = walk
  const error = cause && JSON.stringify({ code: cause.code, message: cause.message })
  const state = outcome === 'failed' ? 'discarded' : outcome
  store.workflows.statements.endNode.run(seq, row.node, outcome, state, now, error)
  note(walk, row, outcome, null)
}

function note(walk: Walk, row: NodeRow, outcome: Outcome, job: JobRow | null): void {
  walk.over.push({ feeds: row.feeds, outcome })
  if (row.type === null) {
    // The last node, for which no node waits, stands for the workflow.
    if (row.feeds === '[]') walk.outcome = outcome
    return
  }
  if (row.isCallback === 0) walk.ended[outcome]++
  if (outcome === 'cancelled') return
  walk.news.push({ what: 'step', step: { id: row.id ?? '', type: row.type, outcome, job } })
}

/** Updates the workflow's row with the outcome of the walk. Returns all news, those of other workflows first. */
function finish(walk: Walk): readonly WorkflowNews[] {
  const { store, seq, now, ended, outcome, news } = walk
  const { completed, failed, cancelled } = ended
  const row = store.workflows.statements.progress.get(
    seq,
    completed + failed + cancelled,
    completed,
    failed,
    outcome ?? 'running',
    outcome === null ? null : now,
  )
  const workflow = onlyRow(row)
  if (outcome !== null) {
    store.workflows.moved('running', outcome)
    news.push({ what: 'ended', failed: outcome === 'failed' ? lastFailed(walk) : null })
  }
  const own = news.map((item) => ({ ...item, workflow }))
  return walk.ofOthers.length === 0 ? own : [...walk.ofOthers, ...own]
}

function lastFailed({ store, seq }: Walk): FailedStep | null {
  return store.workflows.statements.lastFailed.get(seq) ?? null
}

function newWalk(store: Store, workflow: Pick<Walk, 'seq' | 'id' | 'settings'>, now: number): Walk {
  const ended = { completed: 0, failed: 0, cancelled: 0 }
  return {
    store,
    ...workflow,
    now,
    resultBytes: MAX_RESULT_BYTES,
    results: new Map(),
    over: [],
    decided: new Set(),
    ended,
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

/** The parameters `rule` to `request` of the statement `addNode`. */
function columnsOf(node: CheckedNode, feeds: readonly number[]): NodeColumns {
  const { rule, needs } = node
  const text = JSON.stringify
  if (node.kind === 'join')
    return [rule, needs.length, 0, null, null, null, text(feeds), null, null]
  const { isCallback, push, id, dependsOn, inputs } = node
  const flag = isCallback ? 1 : 0
  const texts = [text(dependsOn), text(feeds), text(inputs), text(push)] as const
  return [rule, needs.length, flag, push.type, id, ...texts]
}

function rootRow(
  { id, push, rule, isCallback }: CheckedNode & { kind: 'job' },
  node: number,
  feeds: readonly number[][],
): NodeRow {
  const none = { pending: 0, completed: 0, failed: 0, cancelled: 0 }
  const { type } = push
  const dependents = JSON.stringify(feeds[node] ?? [])
  return { node, rule, ...none, isCallback: isCallback ? 1 : 0, type, id, feeds: dependents }
}

function endedAt({ state, completedAt, discardedAt, cancelledAt, enqueuedAt }: JobRow): number {
  const at = { completed: completedAt, discarded: discardedAt, cancelled: cancelledAt } as const
  return (state in at ? at[state as keyof typeof at] : null) ?? enqueuedAt
}
