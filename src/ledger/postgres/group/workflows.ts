/** The tables of workflows and their nodes. */
import type { WorkflowHead } from '../../../job/workflow/row.ts'
import type { Arrivals, WorkflowState } from '../../../job/workflow/workflow.ts'
import type { NodeRow } from '../../writes/workflow-walk.ts'
import type { Draft } from './draft.ts'
import type { SideTable } from './side.ts'

export interface HeadRow extends Omit<WorkflowHead, 'id'> {
  /** JSON. */
  settings: string
  /** How many nodes it has. */
  nodes: number
}

export const WORKFLOWS: SideTable<HeadRow> = {
  name: 'workflows',
  key: 'id',
  columns: {
    type: 'text',
    state: 'text',
    total: 'bigint',
    open: 'bigint',
    completed: 'bigint',
    failed: 'bigint',
    createdAt: 'bigint',
    endedAt: 'bigint',
    name: 'text',
    settings: 'text',
    nodes: 'bigint',
  },
}

export interface StepRow extends Arrivals {
  progress: 'waiting' | 'started' | 'completed' | 'failed' | 'cancelled'
  rule: NodeRow['rule']
  isCallback: boolean
  type: string | null
  stepId: string | null
  jobId: string | null
  jobState: string | null
  startedAt: number | null
  attempt: number | null
  endedAt: number | null
}

export const STEPS: SideTable<StepRow> = {
  name: 'workflow_steps',
  key: 'key',
  columns: {
    progress: 'text',
    rule: 'text',
    pending: 'bigint',
    completed: 'bigint',
    failed: 'bigint',
    cancelled: 'bigint',
    isCallback: 'boolean',
    type: 'text',
    stepId: 'text',
    jobId: 'text',
    jobState: 'text',
    startedAt: 'bigint',
    attempt: 'bigint',
    endedAt: 'bigint',
  },
}

/** JSON: the nodes that wait for a node. */
export const FEEDS: SideTable<{ feeds: string }> = {
  name: 'workflow_feeds',
  key: 'key',
  columns: { feeds: 'text' },
}

/** JSON: what a step is made from. */
export const SOURCES: SideTable<{ dependsOn: string; inputs: string; request: string }> = {
  name: 'workflow_sources',
  key: 'key',
  columns: { dependsOn: 'text', inputs: 'text', request: 'text' },
}

/** How steps have failed. */
export const ERRORS: SideTable<{ error: string }> = {
  name: 'workflow_errors',
  key: 'key',
  columns: { error: 'text' },
}

/** The key of a node: in the order of the nodes, and all of a workflow behind each other. */
export function nodeKey(workflow: string, node: number): string {
  return `${workflow}/${String(node).padStart(7, '0')}`
}

/** The keys of all nodes. */
export function nodeKeys(workflow: string, nodes: number): string[] {
  return Array.from({ length: nodes }, (_, node) => nodeKey(workflow, node))
}

/** SQL: of the keys of a workflow's nodes. Both: SQL. */
export function isNodeOf(key: string, workflow: string): string {
  return `${key} > ${workflow} || '/' AND ${key} < ${workflow} || '0'`
}

/** SQL: the workflow of a node. */
export function workflowOf(key: string): string {
  return `split_part(${key}, '/', 1)`
}

/** The workflow of a node, and its place. */
export function partsOf(key: string): { workflow: string; node: number } {
  const end = key.lastIndexOf('/')
  return { workflow: key.slice(0, end), node: Number(key.slice(end + 1)) }
}

/** A workflow changes its state. Null `from`: it is new; null `to`: it is deleted. */
export function moved(draft: Draft, from: WorkflowState | null, to: WorkflowState | null): void {
  draft.changes.store(null, () => {
    if (from !== null) draft.memory.addWorkflows(from, -1)
    if (to !== null) draft.memory.addWorkflows(to, 1)
  })
}
