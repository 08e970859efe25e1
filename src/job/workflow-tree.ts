import { echoed, invalidField } from '../errors.ts'
import { isJsonObject } from './json-value.ts'
import type { JobRule, JoinRule, Plan, PlanNode, ResultList, WorkflowRequest } from './workflow.ts'
import {
  inside,
  kindOf,
  MAX_STEPS,
  refuseDependencies,
  refuseLeftOut,
  type TreeType,
  tooManySteps,
} from './workflow-kinds.ts'
import { innerOptions, stepRequest } from './workflow-options.ts'
import { Repetition } from './workflow-size.ts'

/** A chain in a group in a batch; deeper is refused (ojs-digest §8.1). */
const MAX_DEPTH = 3
/** When each begins, as soon as all jobs of the batch are over. */
const CALLBACKS = { on_complete: 'over', on_success: 'completed', on_failure: 'failed' } as const
const CALLBACK_NAMES = ['on_complete', 'on_success', 'on_failure'] as const

type Callback = (typeof CALLBACK_NAMES)[number]
type Members = Readonly<Record<string, unknown>>

/** Where an element stands. */
interface Place {
  /** In the request. */
  path: string
  /** What ids of elements in it begin with. */
  prefix: string
  depth: number
  options: Members
  /** What has to succeed before anything of it begins: one node, or nothing. */
  after: readonly number[]
  /** The same as ids of steps. */
  afterIds: readonly string[]
  /** Results that everything in it sees. */
  seen: ResultList
}

/** The nodes so far. */
interface Draft {
  nodes: PlanNode[]
  ids: Set<string>
  repetition: Repetition
}

/** An element in the plan: the node that ends it, its result for others, the ids of its jobs. */
interface Built {
  end: number
  result: number | ResultList
  ids: readonly string[]
}

type BuiltTree = Built & { result: ResultList }

/** The other dialect (conformance.md S28): jobs and workflows within each other. */
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

/** One after the other; each sees the results of all before it. */
function addChain(draft: Draft, body: Members, place: Place): BuiltTree {
  const built: Built[] = []
  let { after, afterIds } = place
  let before: string | undefined
  for (const [element, path, i] of elementsOf(body, ['steps', 'jobs'], place.path)) {
    refuseDependencies(element, path, before)
    const seen = [...place.seen, ...built.map(({ result }) => result)]
    const one = addElement(draft, element, i, { ...place, path, after, afterIds, seen })
    built.push(one)
    after = [one.end]
    afterIds = one.ids
    before = ownId(element, i, path)
  }
  return joined(draft, built)
}

/** Side by side. */
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

/** Side by side, and then the callbacks that fit the outcome. */
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
 * A batch succeeds with its callbacks, even where jobs of it have failed (ojs-digest §8.3, C-76).
 * A failure that nobody is called for stays one.
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

/** A job, or a workflow within the workflow. */
function addElement(draft: Draft, element: Members, i: number, place: Place): Built {
  const { path } = place
  const id = place.prefix + ownId(element, i, path)
  if (!isTree(element)) return addJob(draft, element, id, place)
  const type = kindOf(element['type'], `${path}.type`)
  if (type === 'dag') {
    throw invalidField(`${path}.type`, 'A workflow within a workflow is a chain, group or batch.')
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

/** All of them have succeeded, or something has failed. */
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

/** A job may have the type `chain` too, but no steps. */
function isTree({ steps, jobs, args }: Members): boolean {
  return (steps != null || jobs != null) && args == null
}

type Element = [element: Members, path: string, i: number]

/** What it consists of, under the first of the two names that is there. */
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
    throw invalidField(field, `The '${field}' field must name at least one job.`, {
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
  throw invalidField(field, `A batch needs at least one of ${CALLBACK_NAMES.join(', ')}.`, {
    validation: 'required',
  })
}

/** 1 to 255 characters that the ledger keeps as they are (`storable` of the schemas). */
const OWN_ID = /^[^\0\p{Cs}]{1,255}$/u

/** That of the request, or its place: `"0"`, `"1"` (ojs-digest §8.1). */
function ownId({ id }: Members, i: number, path: string): string {
  if (id == null) return String(i)
  if (typeof id === 'string' && OWN_ID.test(id)) return id
  throw invalidField(
    `${path}.id`,
    `The '${path}.id' field must be a string of 1 to 255 characters, no NUL or half a surrogate pair.`,
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
