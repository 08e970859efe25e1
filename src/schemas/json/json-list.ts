/** JSON lists whose items belong to different jobs: a broken item does not spoil the others. */
import { OjsError } from '../../errors.ts'
import { afterString, byteAt, COLON, COMMA, depthChange, OPEN_ARRAY, QUOTE } from './json-scan.ts'
import {
  type Afford,
  heapInSlices,
  type JsonLimits,
  listOf,
  parseJsonInSlices,
  parseJsonObject,
  SLICE_BYTES,
} from './json-text.ts'

/** A list whose items belong to different parties, so that one item must not spoil the others. */
export interface ListMember {
  name: string
  /** The items of a longer list are not read one by one. */
  maxItems: number
  /** The limits of one item, which must be an object. */
  item: JsonLimits
  /** The heap that all values of the document may take; absent: any. */
  maxHeap?: number
  /** Whether an item may even be no JSON, as where Python writes `NaN`. */
  mayBeBroken: boolean
}

/** Takes the place of an item that could not be read. */
export class Unreadable {
  readonly text: Buffer
  /** Its `details.field` is a place in the item. */
  readonly error: OjsError

  constructor(text: Buffer, error: OjsError) {
    this.text = text
    this.error = error
  }
}

/** Throws the error of an item that could not be read. */
export function requireReadable(item: unknown): void {
  if (item instanceof Unreadable) throw item.error
}

/**
 * As `parseJsonObject`, for a document whose list has items of different parties. An item becomes
 * `Unreadable`, without affecting the others, if it is too deep, has too many values or a number that
 * JavaScript would change; where items may be broken, also if it is no JSON in UTF-8. Throws if anything else
 * in the document is wrong.
 */
export function parseJsonList(
  bytes: Buffer,
  list: ListMember,
  afford: Afford = () => {},
): Record<string, unknown> {
  const grant = new Grant(afford)
  try {
    return parseJsonObject(bytes, limitsOf(list), grant.ask)
  } catch (error) {
    return drained(oneByOne(bytes, list, { error, grant }))
  }
}

/** As `parseJsonList`, but pauses (`yield`) where something else may run. */
export function* parseJsonListInSlices(
  bytes: Buffer,
  list: ListMember,
  afford: Afford,
): Generator<void, Record<string, unknown>> {
  const grant = new Grant(afford)
  try {
    return yield* parseJsonInSlices(bytes, limitsOf(list), grant.ask)
  } catch (error) {
    return yield* oneByOne(bytes, list, { error, grant })
  }
}

function limitsOf({ item, maxHeap = Number.POSITIVE_INFINITY }: ListMember): JsonLimits {
  return { ...listOf(item), maxHeap, maxPartHeap: item.maxHeap ?? maxHeap }
}

/** Asks for the heap of a document once, although it may be read twice. */
class Grant {
  #answer: 'none' | 'no' | 'yes' = 'none'
  readonly #afford: Afford

  constructor(afford: Afford) {
    this.#afford = afford
  }

  get isRefused(): boolean {
    return this.#answer === 'no'
  }

  readonly ask = (bytes: number): void => {
    if (this.#answer === 'yes') return
    this.#answer = 'no'
    this.#afford(bytes)
    this.#answer = 'yes'
  }
}

/** Only after the fast way has failed (`error`), so that valid documents do not pay for this. */
function* oneByOne(
  bytes: Buffer,
  list: ListMember,
  { error, grant }: { error: unknown; grant: Grant },
): Generator<void, Record<string, unknown>> {
  if (grant.isRefused || !isOfItems(error, list)) throw error
  const heap = yield* heapInSlices(bytes)
  if (heap > (list.maxHeap ?? heap)) throw error
  grant.ask(heap)
  const edges = yield* edgesIn(bytes, list)
  if (edges === null) throw error
  const [opening, ...ends] = edges
  const around = [bytes.subarray(0, opening), EMPTY, bytes.subarray((ends.at(-1) ?? opening) + 1)]
  const frame = parseJsonObject(Buffer.concat(around), limitsOf(list))
  const items: (Record<string, unknown> | Unreadable)[] = []
  let from = opening + 1
  for (const end of ends) {
    items.push(yield* itemOf(bytes.subarray(from, end), list))
    from = end + 1
    yield
  }
  return { ...frame, [list.name]: items }
}

/** Whether an error may be about single items, which the list survives. */
function isOfItems(error: unknown, { mayBeBroken }: ListMember): error is OjsError {
  return error instanceof OjsError && (mayBeBroken || error.code !== 'invalid_payload')
}

function drained<T>(work: Generator<void, T>): T {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}

const EMPTY = Buffer.from('[]')

function* itemOf(
  bytes: Buffer,
  list: ListMember,
): Generator<void, Record<string, unknown> | Unreadable> {
  try {
    return yield* parseJsonInSlices(bytes, list.item)
  } catch (error) {
    if (isOfItems(error, list)) return new Unreadable(bytes, error)
    throw error
  }
}

/**
 * Returns the text of each top-level member of an object, with one character per byte (Latin-1). Only
 * strings, brackets and commas are recognised, so the values need not be valid JSON. Of members with the same
 * name the last counts.
 */
export function memberTexts(bytes: Buffer): Map<string, string> {
  const texts = new Map<string, string>()
  let from = 0
  for (const { at, byte, depth } of marks(bytes)) {
    const isEdge = depth === 0 || (depth === 1 && (byte === COMMA || from === 0))
    if (!isEdge) continue
    const name = bytes.indexOf(QUOTE, from)
    const after = afterString(bytes, name)
    const value = bytes.indexOf(COLON, after)
    if (from !== 0 && name !== -1 && value !== -1 && value < at)
      texts.set(
        bytes.toString('latin1', name + 1, after - 1),
        bytes.toString('latin1', value + 1, at).trim(),
      )
    from = at + 1
  }
  return texts
}

/** Offsets: the opening bracket, the commas between items, the closing bracket. */
type Edges = [opening: number, ...ends: number[]]

/**
 * Finds the items by strings, brackets and commas alone, so they need not be valid JSON. Null if these do not
 * reveal the items. Of members with the same name the last counts, as for `JSON.parse`.
 */
function* edgesIn(bytes: Buffer, { name, maxItems }: ListMember): Generator<void, Edges | null> {
  let found: Edges | null = null
  let open: Edges | null = null
  let until = SLICE_BYTES
  for (const { at, byte, depth, key } of marks(bytes)) {
    if (at > until) {
      yield
      until = at + SLICE_BYTES
    }
    if (open === null) {
      if (depth === 2 && byte === OPEN_ARRAY && key === name) open = [at]
    } else if (depth === 1) {
      found = [...open, at]
      open = null
    } else if (depth === 2 && byte === COMMA) {
      open.push(at)
      if (open.length > maxItems) return null
    }
  }
  return open === null ? found : null
}

interface Mark {
  at: number
  byte: number
  /** The depth after it. */
  depth: number
  /** The last top-level string before it. */
  key: string
}

/** Yields all brackets and commas outside of strings. */
function* marks(bytes: Buffer): Generator<Mark> {
  let key = ''
  let depth = 0
  let at = 0
  while (at < bytes.length) {
    const byte = byteAt(bytes, at)
    if (byte === QUOTE) {
      const after = afterString(bytes, at)
      if (depth === 1) key = bytes.toString('latin1', at + 1, after - 1)
      at = after
      continue
    }
    const change = depthChange(byte)
    depth += change
    if (change !== 0 || byte === COMMA) yield { at, byte, depth, key }
    at++
  }
}
