import { OjsError } from '../errors.ts'
import {
  afterString,
  byteAt,
  COLON,
  COMMA,
  depthChange,
  type JsonLimits,
  listOf,
  OPEN_ARRAY,
  parseJsonObject,
  QUOTE,
} from './json-text.ts'

/** The member of a document whose items are of different parties. */
export interface ListMember {
  name: string
  /** Of a document with more the items are not looked at one by one. */
  maxItems: number
  /** Of one item, which is an object. */
  item: JsonLimits
}

/** Stands for an item that could not be read. */
export class Unreadable {
  readonly text: Buffer
  readonly problem: string

  constructor(text: Buffer, problem: string) {
    this.text = text
    this.problem = problem
  }
}

/**
 * As `parseJsonObject`, for a document that tells of many things in one list: an item that is too
 * deep, no JSON (Python writes `NaN`) or not UTF-8, or that has a number which JavaScript would
 * change, is `Unreadable` and takes no other with it. Throws for what is wrong with all the rest.
 */
export function parseJsonList(bytes: Buffer, list: ListMember): Record<string, unknown> {
  const limits = listOf(list.item)
  try {
    return parseJsonObject(bytes, limits)
  } catch (error) {
    // Only now, so that a document that can be read as a whole pays nothing for it.
    const edges = edgesIn(bytes, list)
    if (edges === null) throw error
    const [opening, ...ends] = edges
    const frame = [bytes.subarray(0, opening), EMPTY, bytes.subarray((ends.at(-1) ?? opening) + 1)]
    const items = ends.map((end, i) => itemOf(bytes.subarray((edges[i] ?? 0) + 1, end), list.item))
    return { ...parseJsonObject(Buffer.concat(frame), limits), [list.name]: items }
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
 * The text of each outermost member of an object, one byte a character: told by strings and
 * brackets alone, whatever else is in it. Of members with the same name the last counts.
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
 * Where the items stand: told by strings and brackets alone, whatever else is in them. Null where
 * these do not tell. Of members with the same name the last counts, as for `JSON.parse`.
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
  /** Behind it. */
  depth: number
  /** The last string before it on the outermost level. */
  key: string
}

/** Brackets and commas. */
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
