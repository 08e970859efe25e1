/** Arrays and tables inside one another; amqplib recurses, and cannot go deeper than its stack. */
const MAX_DEPTH = 32
const UNREADABLE = -1
const LENGTH_BYTES = 4

/** Bytes of a value behind its tag. */
const FIXED = new Map<string, number>([
  ...['t', 'b', 'B'].map((tag) => [tag, 1] as const),
  ...['s', 'u'].map((tag) => [tag, 2] as const),
  ...['I', 'i', 'f'].map((tag) => [tag, 4] as const),
  ...['l', 'L', 'd', 'T'].map((tag) => [tag, 8] as const),
  ['D', 5],
  ['V', 0],
])
const LONG_OF_THE_GRAMMAR = 'L'
const LONG = 'l'.charCodeAt(0)

/**
 * An AMQP field table without the headers that amqplib cannot decode: those of a type that it does
 * not know, and those that are nested too deeply. A signed 64-bit integer under the tag of the 0-9-1
 * grammar, `L` (Python's `amqp` sends it), gets the tag that RabbitMQ and amqplib use, `l`.
 *
 * `table`: the bytes behind the length. Behind a header whose end cannot be told all are lost.
 */
export function readableTable(table: Buffer): Buffer {
  const copy = Buffer.from(table)
  const kept: Buffer[] = []
  let at = 0
  while (at < copy.length) {
    const value = at + 1 + (copy[at] ?? 0)
    const end = endOf(copy, value)
    if (end === UNREADABLE) break
    if (makeReadable(copy, value, 0)) kept.push(copy.subarray(at, end))
    at = end
  }
  return Buffer.concat(kept)
}

/** Where the value whose tag is at `at` ends; its own length tells it, whatever is inside. */
function endOf(bytes: Buffer, at: number): number {
  const tag = tagAt(bytes, at)
  const fixed = FIXED.get(tag)
  if (fixed !== undefined) return within(bytes, at + 1 + fixed)
  if (!'SxAF'.includes(tag) || at + 1 + LENGTH_BYTES > bytes.length) return UNREADABLE
  return within(bytes, at + 1 + LENGTH_BYTES + bytes.readUInt32BE(at + 1))
}

/** False: it cannot be made so. */
function makeReadable(bytes: Buffer, at: number, depth: number): boolean {
  const tag = tagAt(bytes, at)
  if (tag === LONG_OF_THE_GRAMMAR) bytes[at] = LONG
  if (tag !== 'A' && tag !== 'F') return true
  if (depth === MAX_DEPTH) return false
  const inside = bytes.subarray(0, endOf(bytes, at))
  let next = at + 1 + LENGTH_BYTES
  while (next < inside.length) {
    const value = tag === 'F' ? next + 1 + (inside[next] ?? 0) : next
    const end = endOf(inside, value)
    if (end === UNREADABLE || !makeReadable(inside, value, depth + 1)) return false
    next = end
  }
  return true
}

function within(bytes: Buffer, end: number): number {
  return end <= bytes.length ? end : UNREADABLE
}

/** Past the end is '', which is no tag. */
function tagAt(bytes: Buffer, at: number): string {
  return bytes.toString('latin1', at, at + 1)
}
