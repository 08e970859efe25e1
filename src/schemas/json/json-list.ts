/** JSON lists whose items belong to different jobs: a broken item does not spoil the others. */
import { OjsError } from '../../errors.ts'
import { afterString, byteAt, COLON, COMMA, depthChange, OPEN_ARRAY, QUOTE } from './json-scan.ts'
import {
  heapOfValues,
  type JsonLimits,
  listOf,
  parseJsonInSlices,
  parseJsonObject,
} from './json-text.ts'

/** A list whose items belong to different parties, so that one item must not spoil the others. */
export interface ListMember {
  name: string
  /** The items of a longer list are not read one by one. */
  maxItems: number
  /** The limits of one item, which must be an object. */
  item: JsonLimits
}

/** Takes the place of an item that could not be read. */
export class Unreadable {
  readonly text: Buffer
  readonly problem: string

  constructor(text: Buffer, problem: string) {
    this.text = text
    this.problem = problem
  }
}

/**
 * As `parseJsonObject`, for a document whose list has items of different parties. An item becomes
 * `Unreadable`, without affecting the others, if it is too deep, is not JSON (Python writes `NaN`) or not
 * UTF-8, or has a number that JavaScript would change. Throws if anything else in the document is wrong.
 */
export function parseJsonList(bytes: Buffer, list: ListMember): Record<string, unknown> {
  const limits = listOf(list.item)
  try {
    return parseJsonObject(bytes, limits)
  } catch (error) {
    return drained(oneByOne(bytes, list, error))
  }
}

/**
 * As `parseJsonList`, but pauses (`yield`) where something else may run. `afford`: as for `parseJsonInSlices`;
 * it must not throw an `OjsError`.
 */
export function* parseJsonListInSlices(
  bytes: Buffer,
  list: ListMember,
  afford: (bytes: number) => void,
): Generator<void, Record<string, unknown>> {
  try {
    return yield* parseJsonInSlices(bytes, listOf(list.item), afford)
  } catch (error) {
    if (!(error instanceof OjsError)) throw error
    afford(heapOfValues(bytes))
    return yield* oneByOne(bytes, list, error)
  }
}

/** Only after the fast way has failed (`error`), so that valid documents do not pay for this. */
function* oneByOne(
  bytes: Buffer,
  list: ListMember,
  error: unknown,
): Generator<void, Record<string, unknown>> {
  const edges = edgesIn(bytes, list)
  if (edges === null) throw error
  const [opening, ...ends] = edges
  const frame = [bytes.subarray(0, opening), EMPTY, bytes.subarray((ends.at(-1) ?? opening) + 1)]
  const items: (Record<string, unknown> | Unreadable)[] = []
  let from = opening + 1
  for (const end of ends) {
    items.push(itemOf(bytes.subarray(from, end), list.item))
    from = end + 1
    yield
  }
  return { ...parseJsonObject(Buffer.concat(frame), listOf(list.item)), [list.name]: items }
}

function drained<T>(work: Generator<void, T>): T {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}

const EMPTY = Buffer.from('[]')

function itemOf(bytes: Buffer, limits: JsonLimits): Record<string, unknown> | Unreadable {
  try {
    return parseJsonObject(bytes, limits)
  } catch (error) {
    if (error instanceof OjsError) return new Unreadable(bytes, error.message)
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
function edgesIn(bytes: Buffer, { name, maxItems }: ListMember): Edges | null {
  let found: Edges | null = null
  let open: Edges | null = null
  for (const { at, byte, depth, key } of marks(bytes)) {
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
