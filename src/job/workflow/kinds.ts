/** The types of workflows, and what each refuses in a request. */
import { echoed, invalidField, OjsError } from '../../errors.ts'
import { refuseBeside } from '../members.ts'
import type { WorkflowType } from './workflow.ts'

/** The most jobs of a workflow, callbacks included. */
export const MAX_STEPS = 1_000

export type TreeType = Exclude<WorkflowType, 'dag'>

const TREES: ReadonlySet<unknown> = new Set(['chain', 'group', 'batch'])

/** Reads a workflow's `type`. Throws 400, and 422 for `saga`, which other servers may support. */
export function kindOf(type: unknown, field: string): WorkflowType {
  if (type == null || type === 'dag') return 'dag'
  if (isTree(type)) return type
  if (type === 'saga') {
    throw new OjsError('unsupported', "Workflows of the type 'saga' are not supported.", {
      details: { field, received: type },
    })
  }
  throw invalidField(field, `The '${field}' field must be chain, group or batch, or absent.`, {
    expected: [...TREES],
    ...(typeof type === 'string' && { received: echoed(type) }),
  })
}

/**
 * Throws 400 for what this type of workflow would silently leave out: callbacks of another type than batch
 * (OJS workflows), a second list, or options outside `options`.
 */
export function refuseLeftOut(
  type: WorkflowType,
  body: Readonly<Record<string, unknown>>,
  path = '',
): void {
  const { steps, jobs, callbacks } = body
  refuseBeside('workflow', body, path)
  if (steps != null && jobs != null) {
    throw invalidField(
      inside(path, 'jobs'),
      "A workflow must have either 'steps' or 'jobs', not both.",
    )
  }
  if (type === 'batch' || callbacks == null || Object.keys(callbacks).length === 0) return
  throw invalidField(inside(path, 'callbacks'), "Only a batch may have 'callbacks'.")
}

/**
 * Throws 400 for `depends_on` in an element of a chain, group or batch, which would be ignored. Allows what
 * changes nothing, since some programs only know seed 001's form of steps: an empty list, and in a chain the
 * id of the element `before`.
 */
export function refuseDependencies(
  { depends_on: names }: Readonly<Record<string, unknown>>,
  path: string,
  before?: string,
): void {
  if (names == null || (Array.isArray(names) && names.every((name) => name === before))) return
  throw invalidField(
    inside(path, 'depends_on'),
    "In a chain, group or batch the place of a job decides what it waits for, not 'depends_on'.",
  )
}

/** The path of member `name` of the element at `path`; `''` is the request itself. */
export function inside(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`
}

export function tooManySteps(field: string): OjsError {
  return invalidField(field, `A workflow may have ${MAX_STEPS} steps at most.`, {
    validation: 'maxItems',
    max_items: MAX_STEPS,
  })
}

function isTree(type: unknown): type is TreeType {
  return TREES.has(type)
}
