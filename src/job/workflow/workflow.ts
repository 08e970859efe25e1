/** The words of workflows: states, types, requests, plans. */
import type { PushOptions } from '../request.ts'

/**
 * Workflows (seed 001 §14): steps that wait for each other. A request in either dialect
 * becomes a `Plan`, which the ledger runs node by node.
 */

export const WORKFLOW_STATES = ['running', 'completed', 'failed', 'cancelled'] as const
export type WorkflowState = (typeof WORKFLOW_STATES)[number]

/** `dag`: the seed's steps with `depends_on`. */
export const WORKFLOW_TYPES = ['dag', 'chain', 'group', 'batch'] as const
export type WorkflowType = (typeof WORKFLOW_TYPES)[number]

/** The body of `POST /workflows`. Its own members are checked; the planner checks its steps. */
export interface WorkflowRequest {
  /** A UUIDv7 of the client's. */
  id?: string | null
  type?: string | null
  name?: string | null
  steps?: unknown
  jobs?: unknown
  callbacks?: unknown
  options?: PushOptions | null
  [unknown: string]: unknown
}

/** A step in the seed's form. These members are checked; the others are those of a PUSH. */
export interface GraphStep {
  id: string
  depends_on?: string[] | null
  options?: object | null
  [member: string]: unknown
}

/**
 * When a job begins, given the nodes that it waits for:
 * - `completed`: all of them have succeeded.
 * - `over`: all of them have ended, whatever the outcome (`on_complete`).
 * - `failed`: all of them have ended and one has failed (`on_failure`).
 */
export type JobRule = 'completed' | 'over' | 'failed'

/**
 * The outcome of a join: a node without a job, which ends when all the nodes that it waits for have ended.
 * - `all`: succeeds when all of them have succeeded.
 * - `fired`: waits for callbacks; those that ran decide the outcome, the others are ignored.
 * - `rescued`: waits for the jobs of a batch and its `on_failure`; one success is enough.
 */
export type JoinRule = 'all' | 'fired' | 'rescued'

/** Results, named by their nodes' indexes in the plan; a nested list stands for jobs that ran in parallel. */
export type ResultList = (number | ResultList)[]

/** What a job gets as `parent_results`: a list, or an object with the ids of these nodes as member names. */
export type Inputs = ResultList | { steps: number[] }

export interface PlannedJob {
  kind: 'job'
  /** Unique in the workflow. */
  id: string
  /** The body of a PUSH, with the workflow's defaults filled in. Not checked yet. */
  request: Record<string, unknown>
  /** The step's place in the request, for `details.field`. */
  path: string
  /** Indexes of the nodes that it waits for. */
  needs: readonly number[]
  rule: JobRule
  /** True for a callback of a batch: it is none of the batch's jobs, and starts only on its own outcome. */
  isCallback: boolean
  /** Ids of the steps that it waits for, as the workflow's document shows them. */
  dependsOn: readonly string[]
  inputs: Inputs
}

interface PlannedJoin {
  kind: 'join'
  needs: readonly number[]
  rule: JoinRule
}

export type PlanNode = PlannedJob | PlannedJoin

/** A workflow as nodes; the last one is the join whose outcome is that of the workflow. */
export interface Plan {
  type: WorkflowType
  nodes: readonly PlanNode[]
}

/** How a node ended. `cancelled`: it never began, because of the outcome of a node that it waited for. */
export type Outcome = 'completed' | 'failed' | 'cancelled'

/** Of the nodes that a node waits for: how many have not ended, and how many ended with each outcome. */
export interface Arrivals extends Record<Outcome, number> {
  pending: number
}

/** Decides whether a waiting node goes on waiting, starts its job, or ends without one. */
export function decideNode(
  rule: JobRule | JoinRule,
  arrivals: Arrivals,
): 'wait' | 'start' | Outcome {
  // The job can never begin any more, so it is cancelled without waiting for the other nodes.
  if (rule === 'completed' && arrivals.failed + arrivals.cancelled > 0) return 'cancelled'
  if (arrivals.pending > 0) return 'wait'
  return isJoin(rule) ? decideJoin(rule, arrivals) : decideJob(rule, arrivals)
}

function isJoin(rule: JobRule | JoinRule): rule is JoinRule {
  return rule === 'all' || rule === 'fired' || rule === 'rescued'
}

function decideJob(rule: JobRule, { completed, failed }: Arrivals): 'start' | 'cancelled' {
  switch (rule) {
    case 'completed':
      return 'start'
    case 'over':
      // If all are cancelled, no job of the batch has begun, because a step before the batch failed.
      return completed + failed > 0 ? 'start' : 'cancelled'
    case 'failed':
      return failed > 0 ? 'start' : 'cancelled'
  }
}

function decideJoin(rule: JoinRule, { completed, failed, cancelled }: Arrivals): Outcome {
  switch (rule) {
    case 'all':
      if (failed > 0) return 'failed'
      return cancelled > 0 ? 'cancelled' : 'completed'
    case 'fired':
      if (failed > 0) return 'failed'
      return completed > 0 ? 'completed' : 'cancelled'
    case 'rescued':
      if (completed > 0) return 'completed'
      return failed > 0 ? 'failed' : 'cancelled'
  }
}
