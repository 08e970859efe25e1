/** Plans chains, groups and batches, perhaps nested, with their callbacks. */
import { echoed, invalidField } from '../../errors.ts'
import { refuseCallbacks } from '../members.ts'
import { isJsonObject } from '../values/json-value.ts'
import {
  inside,
  kindOf,
  MAX_STEPS,
  refuseDependencies,
  refuseLeftOut,
  type TreeType,
  tooManySteps,
} from './kinds.ts'
import { innerOptions, stepRequest } from './options.ts'
import { Repetition } from './size.ts'
import type { JobRule, JoinRule, Plan, PlanNode, ResultList, WorkflowRequest } from './workflow.ts'

/** Levels of nesting: a chain in a group in a batch is allowed (OJS workflows). */
const MAX_DEPTH = 3
/** The rule by which each callback begins when all jobs of the batch have ended. */
const CALLBACKS = { on_complete: 'over', on_success: 'completed', on_failure: 'failed' } as const
const CALLBACK_NAMES = ['on_complete', 'on_success', 'on_failure'] as const

type Callback = (typeof CALLBACK_NAMES)[number]
type Members = Readonly<Record<string, unknown>>

/** The place of an element (a job or a nested workflow), and what it inherits there. */
interface Place {
  /** Its path in the request. */
  path: string
  /** The prefix of the ids of all elements in it. */
  prefix: string
  depth: number
  options: Members
  /** The node that has to succeed before anything in it begins; or empty. */
  after: readonly number[]
  /** The steps that `after` stands for. */
  afterIds: readonly string[]
  /** Results that all its jobs get as `parent_results`. */
  seen: ResultList
}

/** The plan as far as it is built. */
interface Draft {
  nodes: PlanNode[]
  ids: Set<string>
  repetition: Repetition
}

/** An element that was added to the plan: the node that ends it, its result for later jobs, its jobs' ids. */
interface Built {
  end: number
  result: number | ResultList
  ids: readonly string[]
}

type BuiltTree = Built & { result: ResultList }

/** Plans a workflow in the other dialect (ojs-choices S28): chains, groups and batches, perhaps nested. */
export function planTree(type: TreeType, request: WorkflowRequest): Plan {
  const draft: Draft = { nodes: [], ids: new Set(), repetition: new Repetition() }
  const options = { ...request.options }
  const start = { after: [], afterIds: [], seen: [] }
  addTree(draft, type, request, { path: '', prefix: '', depth: 1, options, ...start })
  return { type, nodes: draft.nodes }
}

function addTree(draft: Draft, type: TreeType, body: Members, place: Place): BuiltTree {
  refuseLeftOut(type, body, place.path)
  switch (type) {
    case 'chain':
      return addChain(draft, body, place)
    case 'group':
      return addGroup(draft, body, place)
    case 'batch':
      return addBatch(draft, body, place)
  }
}

/** Plans elements that run one after the other; each sees the results of all before it. */
function addChain(draft: Draft, body: Members, place: Place): BuiltTree {
  const built: Built[] = []
  let { after, afterIds } = place
  let before: string | undefined
  for (const [element, path, i] of elementsOf(body, ['steps', 'jobs'], place.path)) {
    refuseDependencies(element, path, before)
    const seen = [...place.seen, ...built.map(({ result }) => result)]
    const added = addElement(draft, element, i, { ...place, path, after, afterIds, seen })
    built.push(added)
    after = [added.end]
    afterIds = added.ids
    before = ownId(element, i, path)
  }
  return joined(draft, built)
}

/** Plans elements that run in parallel. */
function addGroup(draft: Draft, body: Members, place: Place): BuiltTree {
  const elements = elementsOf(body, ['jobs', 'steps'], place.path)
  return joined(
    draft,
    elements.map(([element, path, i]) => {
      refuseDependencies(element, path)
      return addElement(draft, element, i, { ...place, path })
    }),
  )
}

/** Plans elements that run in parallel, and the callbacks for each outcome behind them. */
function addBatch(draft: Draft, body: Members, place: Place): BuiltTree {
  const callbacks = callbacksOf(body, place.path)
  const jobs = addGroup(draft, body, place)
  const behind = { after: [jobs.end], afterIds: jobs.ids, seen: jobs.result }
  const ends = callbacks.map(([name, element, path]) => {
    const id = place.prefix + name
    return addJob(draft, element, id, { ...place, ...behind, path }, name).end
  })
  const names = new Set(callbacks.map(([name]) => name))
  return { ...jobs, end: endBatch(draft, names, jobs.end, ends) }
}

/**
 * Adds the join that ends a batch. The batch succeeds if its callbacks do, even when jobs of it have failed
 * (OJS workflows, ojs-choices C-76). A failure for which no callback runs fails the batch.
 */
function endBatch(
  draft: Draft,
  names: ReadonlySet<Callback>,
  jobs: number,
  callbacks: readonly number[],
): number {
  const isAlwaysOneFired = names.has('on_complete') || names.size > 1
  if (isAlwaysOneFired) return addJoin(draft, callbacks, 'fired')
  return addJoin(draft, [jobs, ...callbacks], names.has('on_failure') ? 'rescued' : 'all')
}

/** Adds a job, or a nested workflow. */
function addElement(draft: Draft, element: Members, i: number, place: Place): Built {
  const { path } = place
  const id = place.prefix + ownId(element, i, path)
  if (!isTree(element)) return addJob(draft, element, id, place)
  const type = kindOf(element['type'], `${path}.type`)
  if (type === 'dag') {
    throw invalidField(`${path}.type`, 'A nested workflow must be a chain, group or batch.')
  }
  const depth = place.depth + 1
  if (depth > MAX_DEPTH) {
    throw invalidField(path, `Workflows may be nested ${MAX_DEPTH} deep at most.`, {
      step: id,
      max_depth: MAX_DEPTH,
    })
  }
  draft.repetition.take(place.options, path)
  const options = innerOptions(place.options, optionsIn(element, path))
  return addTree(draft, type, element, { ...place, depth, options, prefix: `${id}.` })
}

function addJob(
  draft: Draft,
  element: Members,
  id: string,
  { path, options, after, afterIds, seen }: Place,
  callback?: Callback,
): Built {
  if (draft.ids.size === MAX_STEPS) throw tooManySteps(path)
  refuseCallbacks(element, path)
  if (draft.ids.has(id)) {
    throw invalidField(`${path}.id`, `Two steps have the id '${id}'.`, {
      step: id,
      validation: 'duplicate',
    })
  }
  draft.ids.add(id)
  draft.repetition.take(options, path)
  draft.repetition.take(afterIds, path)
  const rule: JobRule = callback === undefined ? 'completed' : CALLBACKS[callback]
  const end = draft.nodes.length
  draft.nodes.push({
    kind: 'job',
    id,
    request: stepRequest(element, options),
    path,
    needs: after,
    rule,
    isCallback: callback !== undefined,
    dependsOn: afterIds,
    inputs: seen,
  })
  return { end, result: end, ids: [id] }
}

/** Joins elements: the result succeeds when all of them have succeeded. */
function joined(draft: Draft, built: readonly Built[]): BuiltTree {
  const ends = built.map(({ end }) => end)
  return {
    end: addJoin(draft, ends, 'all'),
    result: built.map(({ result }) => result),
    ids: built.flatMap(({ ids }) => ids),
  }
}

function addJoin({ nodes }: Draft, needs: readonly number[], rule: JoinRule): number {
  return nodes.push({ kind: 'join', needs, rule }) - 1
}

/** True for a nested workflow. A job may have the type `chain` too, but it has no steps. */
function isTree({ steps, jobs, args }: Members): boolean {
  return (steps != null || jobs != null) && args == null
}

type Element = [element: Members, path: string, i: number]

/** The elements of a workflow, from the first of the two `names` that it has. Throws 400. */
function elementsOf(body: Members, names: readonly [string, string], path: string): Element[] {
  const name = body[names[0]] == null && body[names[1]] != null ? names[1] : names[0]
  const field = inside(path, name)
  const list = body[name]
  if (list == null) {
    throw invalidField(field, `The '${field}' field is required.`, { validation: 'required' })
  }
  if (!Array.isArray(list)) {
    throw invalidField(field, `The '${field}' field must be a JSON array.`, { expected: 'array' })
  }
  if (list.length === 0) {
    throw invalidField(field, `The '${field}' field must contain at least one job.`, {
      validation: 'minItems',
    })
  }
  if (list.length > MAX_STEPS) throw tooManySteps(field)
  return list.map((element: unknown, i) => {
    if (!isJsonObject(element)) throw notAnObject(`${field}[${i}]`)
    return [element, `${field}[${i}]`, i]
  })
}

type NamedCallback = [name: Callback, element: Members, path: string]

function callbacksOf(body: Members, path: string): NamedCallback[] {
  const field = inside(path, 'callbacks')
  const callbacks = body['callbacks'] ?? {}
  if (!isJsonObject(callbacks)) throw notAnObject(field)
  const unknown = Object.keys(callbacks).find((name) => !Object.hasOwn(CALLBACKS, name))
  if (unknown !== undefined) {
    const name = `${field}.${echoed(unknown)}`
    throw invalidField(name, `The '${name}' field is not known.`, { validation: 'unknown' })
  }
  const found = CALLBACK_NAMES.flatMap((name): NamedCallback[] => {
    const element = callbacks[name]
    if (element == null) return []
    if (!isJsonObject(element)) throw notAnObject(`${field}.${name}`)
    refuseDependencies(element, `${field}.${name}`)
    return [[name, element, `${field}.${name}`]]
  })
  if (found.length > 0) return found
  throw invalidField(field, `A batch needs at least one callback: ${CALLBACK_NAMES.join(', ')}.`, {
    validation: 'required',
  })
}

/** 1 to 255 characters that the ledger stores unchanged (`storable` of the schemas). */
const OWN_ID = /^[^\0\p{Cs}]{1,255}$/u

/** The id in the request, or else the element's index: `"0"`, `"1"` (OJS workflows). */
function ownId({ id }: Members, i: number, path: string): string {
  if (id == null) return String(i)
  if (typeof id === 'string' && OWN_ID.test(id)) return id
  throw invalidField(
    `${path}.id`,
    `The '${path}.id' field must be a string of 1 to 255 characters without NUL or lone surrogates.`,
  )
}

function optionsIn({ options }: Members, path: string): Members {
  if (options == null) return {}
  if (isJsonObject(options)) return options
  throw notAnObject(`${path}.options`)
}

function notAnObject(field: string): Error {
  return invalidField(field, `The '${field}' field must be a JSON object.`, { expected: 'object' })
}
