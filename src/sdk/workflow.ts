import { requireObject } from './given.ts'
import {
  eitherSpelling,
  type JobSpec,
  type SharedOptions,
  type WireJob,
  wireJob,
  wireOptions,
} from './job-options.ts'
import { isRecord } from './json.ts'

/** One after the other; each step sees the results of those before (`parent_results`). */
export interface ChainDefinition {
  type: 'chain'
  name?: string | undefined
  steps: readonly WorkflowStep[]
  /** Of all jobs in it; a job's own win, and those of a workflow within. */
  options?: SharedOptions | undefined
}

/** Side by side. */
export interface GroupDefinition {
  type: 'group'
  name?: string | undefined
  jobs: readonly WorkflowStep[]
  /** As those of a chain. */
  options?: SharedOptions | undefined
}

/** Side by side, and then the callbacks that fit the outcome. */
export interface BatchDefinition {
  type: 'batch'
  name?: string | undefined
  jobs: readonly WorkflowStep[]
  callbacks: BatchCallbacks
  /** As those of a chain; of the callbacks too. */
  options?: SharedOptions | undefined
}

type TreeDefinition = ChainDefinition | GroupDefinition | BatchDefinition

/** Those of one may be there as null in another, where a program has one type for all. */
interface TreeMembers {
  steps?: readonly WorkflowStep[] | null
  jobs?: readonly WorkflowStep[] | null
  callbacks?: BatchCallbacks | null
}

/** A job, or a workflow inside a workflow. */
export type WorkflowStep = JobSpec | TreeDefinition

/** Steps in any order that their dependencies allow (seed 001 §14.1). */
export interface GraphDefinition {
  name: string
  steps: readonly GraphStep[]
  /** Of all steps; a step's own win. */
  options?: SharedOptions | undefined
}

/** `id`: of the step, for the `depends_on` of others. The server mints that of its job. */
export interface GraphStep extends JobSpec {
  id: string
  /** In either spelling: the steps that have to be completed before. */
  depends_on?: readonly string[] | undefined
  dependsOn?: readonly string[] | undefined
}

export type WorkflowDefinition = TreeDefinition | GraphDefinition

/** In either spelling. */
export interface BatchCallbacks {
  /** All jobs have ended, whatever the outcome. */
  on_complete?: JobSpec | undefined
  /** None has failed. */
  on_success?: JobSpec | undefined
  /** At least one has. */
  on_failure?: JobSpec | undefined
  onComplete?: JobSpec | undefined
  onSuccess?: JobSpec | undefined
  onFailure?: JobSpec | undefined
}

/** Runs the steps in this order (seed 004, "Workflow helpers"). Builds the definition only. */
export function chain(...steps: WorkflowStep[]): ChainDefinition {
  return { type: 'chain', steps: elements('chain', steps) }
}

/** Runs the jobs side by side. Builds the definition only. */
export function group(...jobs: WorkflowStep[]): GroupDefinition {
  return { type: 'group', jobs: elements('group', jobs) }
}

/** Runs the jobs side by side, then the callbacks. Builds the definition only. */
export function batch(jobs: readonly WorkflowStep[], callbacks: BatchCallbacks): BatchDefinition {
  const wire = wireCallbacks(callbacks)
  if (Object.keys(wire).length === 0) throw new TypeError('batch() needs at least one callback.')
  return { type: 'batch', jobs: elements('batch', jobs), callbacks: wire }
}

/** The body of `POST /workflows`, whether the helpers have built the definition or its author has. */
export function wireWorkflow(definition: WorkflowDefinition): object {
  requireObject(definition, 'A workflow is an object, such as chain() makes.')
  return isTree(definition) ? wireTree(definition) : wireGraph(definition)
}

function wireGraph({ steps, options, ...others }: GraphDefinition): object {
  return {
    ...others,
    steps: listOf('steps', steps).map(wireGraphStep),
    ...(options && { options: wireOptions(options) }),
  }
}

function wireGraphStep(step: GraphStep): object {
  requireObject(step, 'A step is an object such as { id, type, args }.')
  const { id, depends_on, dependsOn, ...job } = step
  const needs = eitherSpelling('depends_on', depends_on, dependsOn) ?? []
  return { ...wireJob(job), id, depends_on: needs }
}

function wireTree({ options, ...members }: TreeDefinition): object {
  const { steps, jobs, callbacks }: TreeMembers = members
  return {
    ...members,
    ...(steps && { steps: listOf('steps', steps).map(wireStep) }),
    ...(jobs && { jobs: listOf('jobs', jobs).map(wireStep) }),
    ...(callbacks && { callbacks: wireCallbacks(callbacks) }),
    ...(options && { options: wireOptions(options) }),
  }
}

/** What is in wire form already stays as it is. */
function wireStep(step: WorkflowStep): object {
  return isDefinition(step) ? wireTree(step) : wireJob(step)
}

interface WireCallbacks {
  on_complete?: WireJob
  on_success?: WireJob
  on_failure?: WireJob
}

function wireCallbacks(callbacks: BatchCallbacks): WireCallbacks {
  requireObject(callbacks, 'A batch needs callbacks, an object such as { on_complete }.')
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

/** Throws `TypeError` for what programs without types give instead. */
function listOf<T>(name: string, value: readonly T[]): readonly T[] {
  if (Array.isArray(value)) return value
  throw new TypeError(`'${name}' of a workflow is a list.`)
}

/** A job may have the type `chain` too, but no steps. As on the server, null is as good as absent. */
function isDefinition(step: WorkflowStep): step is TreeDefinition {
  if (!isRecord(step)) return false
  const { steps, jobs, args }: TreeMembers & { args?: unknown } = step
  return (steps != null || jobs != null) && args == null
}

const TREES: ReadonlySet<string> = new Set(['chain', 'group', 'batch'])

function isTree(definition: WorkflowDefinition): definition is TreeDefinition {
  return 'type' in definition && TREES.has(definition.type)
}
