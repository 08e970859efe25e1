/** The dependencies of steps: no cycles, no unknown ids. */
import { invalidField, type OjsError } from '../../errors.ts'

/** Steps named in an error, at most. */
const MAX_NAMED = 20
const WORD_BITS = 32

/** A step: its id and the ids of the steps that it depends on. */
export interface Vertex {
  id: string
  dependsOn: readonly string[]
}

/** The dependencies, with each step named by its index in the request. */
export interface Graph {
  /** For each step the steps that it waits for, each once, in the order of `dependsOn`. */
  needs: readonly (readonly number[])[]
  /** All steps, sorted so that each comes after all steps that it needs. */
  order: readonly number[]
}

/**
 * Builds the graph. Throws 400 if it cannot be run: two steps with the same id, a dependency on an unknown
 * step, or a cycle.
 */
export function graphOf(vertices: readonly Vertex[]): Graph {
  const places = placesOf(vertices)
  const needs = vertices.map((vertex, place) => needsOf(vertex, place, places))
  const order = runningOrder(needs)
  if (order.length < vertices.length) throw cycleAmong(vertices, needs, new Set(order))
  return { needs, order }
}

function runningOrder(needs: Graph['needs']): number[] {
  const dependents: number[][] = needs.map(() => [])
  for (const [place, needed] of needs.entries()) {
    for (const before of needed) dependents[before]?.push(place)
  }
  const open = needs.map(({ length }) => length)
  const order = open.flatMap((count, place) => (count === 0 ? [place] : []))
  // `order` grows during the loop: a step is appended when all that it needs has been visited.
  for (const place of order) {
    for (const next of dependents[place] ?? []) {
      const left = (open[next] ?? 0) - 1
      open[next] = left
      if (left === 0) order.push(next)
    }
  }
  return order
}

function placesOf(vertices: readonly Vertex[]): Map<string, number> {
  const places = new Map<string, number>()
  for (const [place, { id }] of vertices.entries()) {
    if (places.has(id)) {
      throw refusal(`steps[${place}].id`, id, 'duplicate', `Two steps have the id '${brief(id)}'.`)
    }
    places.set(id, place)
  }
  return places
}

function needsOf(
  { id, dependsOn }: Vertex,
  place: number,
  places: ReadonlyMap<string, number>,
): number[] {
  const field = `steps[${place}].depends_on`
  const needed = new Set<number>()
  for (const name of dependsOn) {
    const before = places.get(name)
    if (before === undefined) {
      const message = `Step '${brief(id)}' depends on '${brief(name)}', which is not a step.`
      throw refusal(field, id, 'unknown_dependency', message)
    }
    if (before === place) {
      throw refusal(field, id, 'cycle', `Step '${brief(id)}' depends on itself.`)
    }
    needed.add(before)
  }
  return [...needed]
}

/** The error that names a cycle. Found by following dependencies among the steps that can never run. */
function cycleAmong(
  vertices: readonly Vertex[],
  needs: Graph['needs'],
  runnable: ReadonlySet<number>,
): OjsError {
  const walked: number[] = []
  let at = vertices.findIndex((_, place) => !runnable.has(place))
  while (!walked.includes(at)) {
    walked.push(at)
    at = needs[at]?.find((place) => !runnable.has(place)) ?? at
  }
  // `walked` goes from each step to what it waits for; the message names the steps in running order.
  const cycle = [...walked.slice(walked.indexOf(at)), at].reverse()
  const ids = cycle.map((place) => brief(vertices[place]?.id ?? ''))
  const named = ids.length > MAX_NAMED ? [...ids.slice(0, MAX_NAMED), '…'] : ids
  const [first = ''] = ids
  return invalidField(
    'steps',
    `The steps depend on each other in a circle: ${named.join(' → ')}.`,
    {
      step: first,
      validation: 'cycle',
      cycle: named,
    },
  )
}

/** For each step all steps that come before it, directly or not; indexes in ascending order. */
export function ancestors({ needs, order }: Graph): number[][] {
  const words = Math.ceil(needs.length / WORD_BITS)
  const sets = needs.map(() => new Uint32Array(words))
  for (const place of order) {
    const own = sets[place] ?? new Uint32Array(words)
    for (const before of needs[place] ?? []) {
      for (const [i, word] of sets[before]?.entries() ?? []) own[i] = (own[i] ?? 0) | word
      setBit(own, before)
    }
  }
  return sets.map(bitsOf)
}

function setBit(set: Uint32Array, place: number): void {
  const i = Math.floor(place / WORD_BITS)
  set[i] = (set[i] ?? 0) | (1 << (place % WORD_BITS))
}

function bitsOf(set: Uint32Array): number[] {
  const bits: number[] = []
  for (const [i, word] of set.entries()) {
    for (let bit = 0; word !== 0 && bit < WORD_BITS; bit++) {
      if ((word & (1 << bit)) !== 0) bits.push(i * WORD_BITS + bit)
    }
  }
  return bits
}

function refusal(field: string, step: string, validation: string, message: string): OjsError {
  return invalidField(field, message, { step: brief(step), validation })
}

/** Shortens an id of the client's, which may have 255 characters, to keep the message readable. */
function brief(id: string): string {
  return id.length <= 100 ? id : `${id.slice(0, 100)}…`
}
