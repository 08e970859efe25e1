/** The rows of running workflows, of which `writes/workflow-walk.ts` makes steps begin and end. */
import type { JobRow, NewJob, RowState } from '../../../job/job.ts'
import { nodesIn } from '../../../job/workflow/results.ts'
import type { FailedStep, WorkflowHead, WorkflowRow } from '../../../job/workflow/row.ts'
import type { WorkflowSettings } from '../../../job/workflow/step.ts'
import { decideNode, type Inputs } from '../../../job/workflow/workflow.ts'
import type { WorkflowNews } from '../../ended.ts'
import type { Inserted } from '../../enqueued.ts'
import type { CancelledWorkflow, NewWorkflow, WorkflowCreated } from '../../workflows.ts'
import { firstStart, shownSteps } from '../../writes/workflow-shown.ts'
import {
  type Arriving,
  advanceFrom,
  beginWorkflow,
  cancelSteps,
  MAX_RESULT_BYTES,
  type NewNode,
  type NodeEnd,
  type NodeRow,
  newNodes,
  type OpenWorkflow,
  type Progress,
  stepEndOf,
  totalOf,
} from '../../writes/workflow-walk.ts'
import type { Draft } from '../group/draft.ts'
import { wanted } from '../group/side.ts'
import {
  ERRORS,
  FEEDS,
  type HeadRow,
  moved,
  nodeKey,
  nodeKeys,
  partsOf,
  SOURCES,
  STEPS,
  type StepRow,
  WORKFLOWS,
} from '../group/workflows.ts'
import { lookUpLines } from '../keyed/lines.ts'
import { cancelJob } from '../writes/end.ts'
import { admitOne } from '../writes/unique.ts'

/** Stores the workflow and the jobs of the steps that wait for nothing. */
export function createWorkflow(draft: Draft, workflow: NewWorkflow, now: number): WorkflowCreated {
  const { id, type, name, settings } = workflow
  if (draft.side(WORKFLOWS, id) !== null) return { outcome: 'duplicate' }
  const nodes = newNodes(workflow.nodes)
  const total = totalOf(workflow)
  const numbers = { total, open: total, completed: 0, failed: 0, nodes: nodes.length }
  const times = { createdAt: now, endedAt: null }
  const head = { type, name, state: 'running', settings: JSON.stringify(settings) } as const
  draft.putSide(WORKFLOWS, id, { ...head, ...numbers, ...times })
  moved(draft, null, 'running')
  for (const node of nodes) putNode(draft, id, node)
  const open = new OpenRows(draft, id, settings)
  const news = beginWorkflow(open, nodes, now)
  for (const node of nodes) forgetRequest(draft, id, node)
  return { outcome: 'created', workflow: standing(draft, id, nodes), news }
}

function putNode(draft: Draft, id: string, { node, source, feeds, ...row }: NewNode): void {
  const key = nodeKey(id, node)
  const { rule, pending, isCallback, type, id: stepId } = row
  const none = { completed: 0, failed: 0, cancelled: 0, jobId: null, jobState: null }
  const times = { startedAt: null, attempt: null, endedAt: null }
  const step = { progress: 'waiting', rule, pending, isCallback, type, stepId } as const
  draft.putSide(STEPS, key, { ...step, ...none, ...times })
  draft.putSide(FEEDS, key, { feeds: JSON.stringify(feeds) })
  if (source !== null) draft.putSide(SOURCES, key, source)
}

/** Of a step that has begun: its job has it. */
function forgetRequest(draft: Draft, id: string, { node, source }: NewNode): void {
  const key = nodeKey(id, node)
  if (source === null || stepOf(draft, key).progress === 'waiting') return
  const { dependsOn, inputs } = source
  draft.putSide(SOURCES, key, { dependsOn, inputs, request: '' })
}

/** A workflow that has just been stored, as readers see it. */
function standing(draft: Draft, id: string, nodes: readonly NewNode[]): WorkflowRow {
  const steps = nodes.filter(({ type }) => type !== null).map((node) => shownStep(draft, id, node))
  const shown = shownSteps(steps).map(
    ({ bytes: _, errorBytes: __, isShown: ___, text, ...step }) => ({
      ...step,
      error: text,
    }),
  )
  return { ...headOf(draft, id), startedAt: firstStart(steps), steps: shown }
}

function shownStep(draft: Draft, id: string, { node, source }: NewNode) {
  const key = nodeKey(id, node)
  const step = stepOf(draft, key)
  const job = step.jobId === null ? null : draft.row(step.jobId)
  const text = draft.side(ERRORS, key)?.error ?? null
  return {
    id: step.stepId ?? '',
    type: step.type ?? '',
    isCallback: step.isCallback,
    dependsOn: JSON.parse(source?.dependsOn ?? '[]') as string[],
    progress: step.progress,
    state: (step.jobState ?? job?.state ?? 'pending') as RowState,
    jobId: step.jobId,
    ...{ startedAt: step.startedAt, endedAt: step.endedAt, attempt: step.attempt ?? 0 },
    ...{ result: null, resultBytes: 0, bytes: 0, text },
    errorBytes: Buffer.byteLength(text ?? ''),
  }
}

/**
 * Ends the step whose job is over, and begins or ends all that depends on it. Returns the news. Does nothing for
 * a job that is no step, or whose workflow had ended before.
 */
export function endStep(draft: Draft, job: JobRow): readonly WorkflowNews[] | undefined {
  const key = draft.row(job.id)?.step
  if (key == null) return undefined
  const { workflow, node } = partsOf(key)
  draft.require({
    sides: [wanted(STEPS, [key]), wanted(FEEDS, [key]), wanted(WORKFLOWS, [workflow])],
  })
  const step = draft.side(STEPS, key)
  // A dead letter that was retried is no step any more.
  if (step?.jobId !== job.id || step.progress !== 'started') return undefined
  const { outcome, state, now, error, startedAt, attempt } = stepEndOf(job)
  const end = { progress: outcome, jobState: state, endedAt: now, startedAt, attempt }
  draft.putSide(STEPS, key, { ...step, ...end })
  if (error !== null) draft.putSide(ERRORS, key, { error })
  const settings = JSON.parse(rowOf(draft, workflow).settings) as WorkflowSettings
  return advanceFrom(new OpenRows(draft, workflow, settings), toNode(step, node), job)
}

/** Cancels the workflow first, so that the cancel of one job begins no other step, and then its jobs. */
export function cancelWorkflow(draft: Draft, id: string, now: number): CancelledWorkflow | 'stale' {
  const head = draft.side(WORKFLOWS, id)
  if (head?.state !== 'running') return 'stale'
  const keys = nodeKeys(id, head.nodes)
  draft.require({ sides: [wanted(STEPS, keys)] })
  draft.putSide(WORKFLOWS, id, { ...head, state: 'cancelled', endedAt: now, open: 0 })
  moved(draft, 'running', 'cancelled')
  const left = keys
    .map((key) => ({ key, step: stepOf(draft, key) }))
    .filter(({ step }) => step.progress === 'waiting' || step.progress === 'started')
  const ids = left.flatMap(({ step }) => step.jobId ?? [])
  // What the end of each of these jobs reads: see `endStep`.
  const feeds = left.map(({ key }) => key)
  draft.require({ ids, sides: [wanted(FEEDS, feeds)] })
  lookUpLines(draft, ids)
  const end = { progress: 'cancelled', jobState: 'cancelled', endedAt: now } as const
  for (const { key, step } of left) draft.putSide(STEPS, key, { ...step, ...end })
  const steps = left.map(({ step }) => step)
  return cancelSteps(headOf(draft, id), steps, (jobId, cause) =>
    cancelJob(draft, jobId, now, cause),
  )
}

class OpenRows implements OpenWorkflow {
  readonly id: string
  readonly settings: WorkflowSettings
  readonly #draft: Draft
  /** Stored results: their sizes, and those texts that may be shown. */
  readonly #sizes = new Map<string, number>()
  readonly #texts = new Map<string, string | null>()
  #waves = 0

  constructor(draft: Draft, id: string, settings: WorkflowSettings) {
    this.id = id
    this.settings = settings
    this.#draft = draft
  }

  wall(): number {
    return this.#draft.wall
  }

  /** Reads in a few loads what would be one for each node. */
  expect(arrivals: ReadonlyMap<number, Arriving>): void {
    this.#waves += 1
    const isCancelling = [...arrivals.values()].some(({ completed }) => completed === 0)
    // A failure goes through all that depends on it, wave by wave.
    const isWide = this.#waves > 1 && (isCancelling || this.#waves > 3)
    const keys = isWide ? this.#allKeys() : this.#keysOf([...arrivals.keys()])
    this.#draft.require({
      sides: [wanted(STEPS, keys), ...(isWide ? [wanted(FEEDS, keys)] : [])],
    })
    const decided = [...arrivals].flatMap(([node, arriving]) => {
      const row = this.#arriving(node, arriving)
      const decision = row === null ? 'wait' : decideNode(row.rule, row)
      return decision === 'wait' ? [] : [{ node, decision }]
    })
    const starting = decided.filter(({ decision }) => decision === 'start')
    const own = starting.map(({ node }) => node).filter((node) => this.#isStep(node))
    const feeds = wanted(FEEDS, this.#keysOf(decided.map(({ node }) => node)))
    this.#draft.require({ sides: [feeds, wanted(SOURCES, this.#keysOf(own))] })
    const inputs = own.flatMap((node) => nodesIn(JSON.parse(this.source(node).inputs) as Inputs))
    if (inputs.length > 0) this.#readResults([...new Set(inputs)])
  }

  arrive(node: number, arriving: Arriving): NodeRow | undefined {
    const row = this.#arriving(node, arriving)
    if (row === null) return undefined
    this.#draft.putSide(STEPS, nodeKey(this.id, node), row)
    return toNode(row, node)
  }

  feeds({ node }: Pick<NodeRow, 'node'>): readonly number[] {
    const row = this.#draft.side(FEEDS, nodeKey(this.id, node))
    return JSON.parse(row?.feeds ?? '[]') as number[]
  }

  source(node: number): { request: string; inputs: string } {
    const row = this.#draft.side(SOURCES, nodeKey(this.id, node))
    if (row === null) throw new Error('bug: a step without its source')
    return row
  }

  results(nodes: readonly number[]): ReturnType<OpenWorkflow['results']> {
    return this.#readResults(nodes).map(({ node, step }) => {
      const jobId = resultOf(step) ?? ''
      return { node, id: step.stepId ?? '', jobId, bytes: this.#bytesOf(jobId) }
    })
  }

  result(jobId: string): string | null {
    const changed = this.#draft.changedResult(jobId)
    if (changed !== undefined) return changed
    if (!this.#texts.has(jobId)) this.#readTexts([jobId])
    return this.#texts.get(jobId) ?? null
  }

  admit(node: number, job: NewJob, now: number): Inserted {
    const step = nodeKey(this.id, node)
    const terms = { now, wall: this.wall(), cause: { reason: 'workflow' }, step }
    return admitOne(this.#draft, job, terms)
  }

  start(node: number, jobId: string): void {
    this.#change(node, { progress: 'started', jobId })
  }

  end(node: number, { outcome, state, now, error }: NodeEnd): void {
    this.#change(node, { progress: outcome, jobState: state, endedAt: now })
    if (error !== null) this.#draft.putSide(ERRORS, nodeKey(this.id, node), { error })
  }

  progress({ completed, failed, cancelled, outcome, now }: Progress): WorkflowHead {
    const head = rowOf(this.#draft, this.id)
    this.#draft.putSide(WORKFLOWS, this.id, {
      ...head,
      open: head.open - completed - failed - cancelled,
      completed: head.completed + completed,
      failed: head.failed + failed,
      state: outcome ?? 'running',
      endedAt: outcome === null ? null : now,
    })
    if (outcome !== null) moved(this.#draft, 'running', outcome)
    return headOf(this.#draft, this.id)
  }

  lastFailed(): FailedStep | null {
    const keys = this.#allKeys()
    this.#draft.require({ sides: [wanted(STEPS, keys)] })
    let last: { key: string; step: StepRow } | null = null
    for (const key of keys) {
      const step = stepOf(this.#draft, key)
      const isFailed = step.progress === 'failed' && step.type !== null
      if (isFailed && (step.endedAt ?? 0) >= (last?.step.endedAt ?? 0)) last = { key, step }
    }
    if (last === null) return null
    const { stepId, type, jobState } = last.step
    const error = this.#draft.side(ERRORS, last.key)?.error ?? null
    return { id: stepId ?? '', type: type ?? '', state: jobState as RowState, error }
  }

  #arriving(node: number, { completed, failed, cancelled }: Arriving): StepRow | null {
    const step = stepOf(this.#draft, nodeKey(this.id, node))
    if (step.progress !== 'waiting') return null
    return {
      ...step,
      pending: step.pending - completed - failed - cancelled,
      completed: step.completed + completed,
      failed: step.failed + failed,
      cancelled: step.cancelled + cancelled,
    }
  }

  #change(node: number, change: Partial<StepRow>): void {
    const key = nodeKey(this.id, node)
    const step = stepOf(this.#draft, key)
    if (step.progress === 'waiting') this.#draft.putSide(STEPS, key, { ...step, ...change })
  }

  #isStep(node: number): boolean {
    return stepOf(this.#draft, nodeKey(this.id, node)).type !== null
  }

  #keysOf(nodes: readonly number[]): string[] {
    return nodes.map((node) => nodeKey(this.id, node))
  }

  #allKeys(): string[] {
    return nodeKeys(this.id, rowOf(this.#draft, this.id).nodes)
  }

  /** The steps whose results are wanted, once the sizes of these and as many texts as may be shown are read. */
  #readResults(nodes: readonly number[]): { node: number; step: StepRow }[] {
    this.#draft.require({ sides: [wanted(STEPS, this.#keysOf(nodes))] })
    const steps = nodes.map((node) => ({ node, step: stepOf(this.#draft, nodeKey(this.id, node)) }))
    const ids = steps.flatMap(({ step }) => resultOf(step) ?? [])
    // Never of a job that this group has stored: it gets another id each time that the group runs.
    const stored = ids.filter((id) => this.#draft.changedResult(id) === undefined)
    this.#readSizes(stored.filter((id) => !this.#sizes.has(id)))
    this.#readTexts(this.#shown(ids).filter((id) => !this.#texts.has(id)))
    return steps
  }

  #readSizes(ids: readonly string[]): void {
    if (ids.length === 0) return
    const text = `SELECT f.* FROM unnest($1::text[]) AS w (id) CROSS JOIN LATERAL (
      SELECT j.id, octet_length(b.result) AS bytes FROM ${this.#draft.schema}.jobs j
      JOIN ${this.#draft.schema}.job_bodies b ON b.id = j.id
      WHERE j.id = w.id AND b.result IS NOT NULL LIMIT 1) f`
    for (const id of ids) this.#sizes.set(id, 0)
    for (const { id, bytes } of this.#draft.ask({ text, values: [ids] }))
      this.#sizes.set(String(id), Number(bytes))
  }

  #readTexts(ids: readonly string[]): void {
    if (ids.length === 0) return
    const text = `SELECT b.id, b.result FROM ${this.#draft.schema}.job_bodies b WHERE b.id = ANY($1::text[])`
    for (const { id, result } of this.#draft.ask({ text, values: [ids] }))
      this.#texts.set(String(id), result as string | null)
  }

  /** Those that are small enough to be copied into a job, up to the most that one walk copies. */
  #shown(ids: readonly string[]): string[] {
    let left = MAX_RESULT_BYTES
    return ids.filter((id) => {
      if (this.#draft.changedResult(id) !== undefined) return false
      const bytes = this.#bytesOf(id)
      if (bytes === 0 || bytes > MAX_SHOWN_BYTES || bytes > left) return false
      left -= bytes
      return true
    })
  }

  #bytesOf(jobId: string): number {
    const changed = this.#draft.changedResult(jobId)
    if (changed !== undefined) return Buffer.byteLength(changed ?? '')
    return this.#sizes.get(jobId) ?? 0
  }
}

/** The job whose result the step has. One that has ended otherwise may be retried, and is none of the workflow then. */
function resultOf({ progress, jobId }: StepRow): string | null {
  return progress === 'completed' ? jobId : null
}

/** A larger result is never shown. */
const MAX_SHOWN_BYTES = 65_536

function toNode({ rule, isCallback, type, stepId, ...arrivals }: StepRow, node: number): NodeRow {
  const { pending, completed, failed, cancelled } = arrivals
  return { node, rule, isCallback, type, id: stepId, pending, completed, failed, cancelled }
}

function stepOf(draft: Draft, key: string): StepRow {
  const step = draft.side(STEPS, key)
  if (step === null) throw new Error('bug: a workflow without one of its nodes')
  return step
}

function rowOf(draft: Draft, id: string): HeadRow {
  const row = draft.side(WORKFLOWS, id)
  if (row === null) throw new Error('bug: a step without its workflow')
  return row
}

function headOf(draft: Draft, id: string): WorkflowHead {
  const { settings: _, nodes: __, ...head } = rowOf(draft, id)
  return { id, ...head }
}
