/** `chain`, `group` and `batch` build workflows; graphs are written by hand. */
import { isRecord, requireKnown, requireObject } from '../async/options.ts'
import {
  eitherSpelling,
  type JobSpec,
  type SharedOptions,
  type WireJob,
  wireJob,
  wireOptions,
} from './job-options.ts'

/** Runs the steps one after the other; each step gets the results of earlier ones (`parent_results`). */
export interface ChainDefinition {
  type: 'chain'
  name?: string | undefined
  steps: readonly WorkflowStep[]
  /** Options for all jobs in the workflow. Options of a job, or of a workflow inside, override them. */
  options?: SharedOptions | undefined
}

/** Runs the jobs in parallel. */
export interface GroupDefinition {
  type: 'group'
  name?: string | undefined
  jobs: readonly WorkflowStep[]
  /** Options for all jobs, as in a chain. */
  options?: SharedOptions | undefined
}

/** Runs the jobs in parallel, then the callbacks that match the outcome. */
export interface BatchDefinition {
  type: 'batch'
  name?: string | undefined
  jobs: readonly WorkflowStep[]
  callbacks: BatchCallbacks
  /** Options for all jobs, as in a chain; they apply to the callbacks, too. */
  options?: SharedOptions | undefined
}

type TreeDefinition = ChainDefinition | GroupDefinition | BatchDefinition

/**
 * Members of all definitions. Each may be null where it does not belong: a program may use one type for all.
 */
interface TreeMembers {
  steps?: readonly WorkflowStep[] | null
  jobs?: readonly WorkflowStep[] | null
  callbacks?: BatchCallbacks | null
}

/** A job, or a workflow inside a workflow. */
export type WorkflowStep = JobSpec | TreeDefinition

/** Runs the steps in any order that their dependencies allow (seed 001 §14.1). */
export interface GraphDefinition {
  name: string
  steps: readonly GraphStep[]
  /** Options for all steps. A step's own options override them. */
  options?: SharedOptions | undefined
}

/** `id` is the step's, for the `depends_on` of other steps. The server mints the id of its job. */
export interface GraphStep extends JobSpec {
  id: string
  /** Ids of the steps that must be completed before, in either spelling. */
  depends_on?: readonly string[] | undefined
  dependsOn?: readonly string[] | undefined
}

/** `id`: a UUIDv7; default: minted by the client. */
export type WorkflowDefinition = (TreeDefinition | GraphDefinition) & { id?: string | undefined }

/** Jobs to run when the batch has ended, in either spelling. */
export interface BatchCallbacks {
  /** Runs when all jobs have ended, whatever the outcome. */
  on_complete?: JobSpec | undefined
  /** Runs when no job has failed. */
  on_success?: JobSpec | undefined
  /** Runs when at least one job has failed. */
  on_failure?: JobSpec | undefined
  onComplete?: JobSpec | undefined
  onSuccess?: JobSpec | undefined
  onFailure?: JobSpec | undefined
}

/** Builds the definition of a chain, which runs the steps in this order (seed 004, "Workflow helpers"). */
export function chain(...steps: WorkflowStep[]): ChainDefinition {
  return { type: 'chain', steps: elements('chain', steps) }
}

/** Builds the definition of a group, which runs the jobs in parallel. */
export function group(...jobs: WorkflowStep[]): GroupDefinition {
  return { type: 'group', jobs: elements('group', jobs) }
}

/** Builds the definition of a batch, which runs the jobs in parallel, then the callbacks. */
export function batch(jobs: readonly WorkflowStep[], callbacks: BatchCallbacks): BatchDefinition {
  const wire = wireCallbacks(callbacks)
  if (Object.keys(wire).length === 0) throw new TypeError('batch() needs at least one callback.')
  return { type: 'batch', jobs: elements('batch', jobs), callbacks: wire }
}

/** The body of `POST /workflows` for a definition from the helpers or written by hand. */
export function wireWorkflow(definition: WorkflowDefinition): object {
  requireObject(definition, 'A workflow must be an object, such as chain() returns.')
  return isTree(definition) ? wireTree(definition) : wireGraph(definition)
}

const MEMBERS = {
  ...{ id: true, name: true, type: true, options: true },
  ...{ steps: true, jobs: true, callbacks: true },
}

/** Members that are null are as good as absent: a program may use one type for jobs and workflows. */
function requireMembers(definition: object): void {
  const members = Object.entries(definition).filter(([, value]) => value !== null)
  requireKnown(Object.fromEntries(members), MEMBERS, 'a workflow')
}

function wireGraph(definition: GraphDefinition): object {
  requireMembers(definition)
  const { steps, options, ...others } = definition
  return {
    ...others,
    steps: listOf('steps', steps).map(wireGraphStep),
    ...(options && { options: wireOptions(options) }),
  }
}

function wireGraphStep(step: GraphStep): object {
  requireObject(step, 'A step must be an object such as { id, type, args }.')
  const { id, depends_on, dependsOn, ...job } = step
  const needs = eitherSpelling('depends_on', depends_on, dependsOn) ?? []
  return { ...wireJob(job), id, depends_on: needs }
}

function wireTree(definition: TreeDefinition): object {
  requireMembers(definition)
  const { options, ...members } = definition
  const { steps, jobs, callbacks }: TreeMembers = members
  return {
    ...members,
    ...(steps && { steps: listOf('steps', steps).map(wireStep) }),
    ...(jobs && { jobs: listOf('jobs', jobs).map(wireStep) }),
    ...(callbacks && { callbacks: wireCallbacks(callbacks) }),
    ...(options && { options: wireOptions(options) }),
  }
}

/** A step in wire form; a step that already is in wire form does not change. */
function wireStep(step: WorkflowStep): object {
  return isDefinition(step) ? wireTree(step) : wireJob(step)
}

interface WireCallbacks {
  on_complete?: WireJob
  on_success?: WireJob
  on_failure?: WireJob
}

const CALLBACKS: Readonly<Record<keyof BatchCallbacks, true>> = {
  ...{ on_complete: true, on_success: true, on_failure: true },
  ...{ onComplete: true, onSuccess: true, onFailure: true },
}

function wireCallbacks(callbacks: BatchCallbacks): WireCallbacks {
  requireObject(callbacks, 'A batch needs callbacks, an object such as { on_complete }.')
  requireKnown(callbacks, CALLBACKS, "'callbacks'")
  const complete = eitherSpelling('on_complete', callbacks.on_complete, callbacks.onComplete)
  const success = eitherSpelling('on_success', callbacks.on_success, callbacks.onSuccess)
  const failure = eitherSpelling('on_failure', callbacks.on_failure, callbacks.onFailure)
  return {
    ...(complete && { on_complete: wireJob(complete) }),
    ...(success && { on_success: wireJob(success) }),
    ...(failure && { on_failure: wireJob(failure) }),
  }
}

function elements(helper: string, steps: readonly WorkflowStep[]): WorkflowStep[] {
  if (steps.length === 0) throw new TypeError(`${helper}() needs at least one job.`)
  return steps.map((step) => (isDefinition(step) ? step : wireJob(step)))
}

/** Throws `TypeError` if `value` is no list: programs without types may pass something else. */
function listOf<T>(name: string, value: readonly T[]): readonly T[] {
  if (Array.isArray(value)) return value
  throw new TypeError(`'${name}' of a workflow must be an array.`)
}

/** Whether a step is a workflow. A job may have the type `chain`, but no steps. Null is as good as absent. */
function isDefinition(step: WorkflowStep): step is TreeDefinition {
  if (!isRecord(step)) return false
  const { steps, jobs, args }: TreeMembers & { args?: unknown } = step
  return (steps != null || jobs != null) && args == null
}

const TREES: ReadonlySet<string> = new Set(['chain', 'group', 'batch'])

function isTree(definition: WorkflowDefinition): definition is TreeDefinition {
  return 'type' in definition && TREES.has(definition.type)
}
