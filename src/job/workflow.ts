import type { PushOptions } from './request.ts'

/**
 * Workflows (seed 001 §14, ojs-digest §8): a list of steps that wait for each other. Both request
 * dialects become one `Plan`; the ledger runs it node by node.
 */

export const WORKFLOW_STATES = ['running', 'completed', 'failed', 'cancelled'] as const
export type WorkflowState = (typeof WORKFLOW_STATES)[number]

/** `dag`: the seed's steps with `depends_on`. */
export type WorkflowType = 'dag' | 'chain' | 'group' | 'batch'

/** The body of `POST /workflows`, its head checked; what is in it is the planner's to check. */
export interface WorkflowRequest {
  type?: string | null
  name?: string | null
  steps?: unknown
  jobs?: unknown
  callbacks?: unknown
  options?: PushOptions | null
  [unknown: string]: unknown
}

/** A step of the seed's form, its own members checked; the rest is a PUSH. */
export interface GraphStep {
  id: string
  depends_on?: string[] | null
  options?: object | null
  [member: string]: unknown
}

/**
 * When a job begins, given what it waits for:
 * - `completed`: all of it has succeeded.
 * - `over`: all of it is over, whatever the outcome (`on_complete`).
 * - `failed`: all of it is over and something has failed (`on_failure`).
 */
export type JobRule = 'completed' | 'over' | 'failed'

/**
 * What becomes of a node without a job, which ends when all that it waits for is over:
 * - `all`: success when everything has succeeded.
 * - `fired`: the callbacks that were called decide; the others count for nothing.
 * - `rescued`: of the jobs of a batch and its `on_failure`, one success is enough.
 */
export type JoinRule = 'all' | 'fired' | 'rescued'

/** Results by the place of their node: in a list, lists within it for what ran side by side. */
export type ResultList = (number | ResultList)[]

/** What a job gets as `parent_results`: a list, or an object by the ids of these nodes. */
export type Inputs = ResultList | { steps: number[] }

export interface PlannedJob {
  kind: 'job'
  /** Unique in the workflow. */
  id: string
  /** A PUSH of its own, the defaults of the workflow filled in. Not checked yet. */
  request: Record<string, unknown>
  /** Where it stands in the request, for `details.field`. */
  path: string
  /** Places of nodes that come earlier in the plan. */
  needs: readonly number[]
  rule: JobRule
  /** Of a batch: not one of its jobs, and started only where the outcome asks for it. */
  isCallback: boolean
  /** Ids of steps, as a reader of the workflow sees its dependencies. */
  dependsOn: readonly string[]
  inputs: Inputs
}

interface PlannedJoin {
  kind: 'join'
  needs: readonly number[]
  rule: JoinRule
}

export type PlanNode = PlannedJob | PlannedJoin

/** Nodes in an order in which each comes after all it needs; the last is the workflow itself. */
export interface Plan {
  type: WorkflowType
  nodes: readonly PlanNode[]
}

/** How a node ended. `cancelled`: it never began, because of what it waited for. */
export type Outcome = 'completed' | 'failed' | 'cancelled'

/** Of what a node waits for: how much is open, and how the rest ended. */
export interface Arrivals extends Record<Outcome, number> {
  pending: number
}

/** What becomes of a node that has waited until now. */
export function decideNode(
  rule: JobRule | JoinRule,
  arrivals: Arrivals,
): 'wait' | 'start' | Outcome {
  // Nothing can save it any more, so its end need not wait for the rest.
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
      // Nothing of the batch has begun: what came before it has failed.
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
